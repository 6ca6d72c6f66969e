"""Groups and transactions go on when the node of their coordinator is killed, or stands still.

Three nodes as processes, all topics with three replicas. Members keep their partitions over the
move of the coordinator; what was committed does not go back; nothing is copied twice or not at all.
A node that stood still goes on as a coordinator that was replaced, and does not know it yet.
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.copying import Copier
from rig.failover.questions import (
    all_records,
    create_replicated,
    leader_of,
    partition_states,
    until_in_sync,
)
from rig.members.member import GroupOfMembers, python_member
from rig.steady_producer import SteadyProducer
from rig.transactional.confluent import committed_consumer

pytestmark = pytest.mark.slow

ORDERS, COPIES = "orders", "copies"
TRANSACTION_TOPIC = "__transaction_state"
PARTITIONS = 4
INTERNAL_PARTITIONS = 6
COMMITS_BETWEEN = 5
PATIENCE_SECONDS = 120.0
# Not every call of the client asks again by itself.
MOVED = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
)
SETTINGS = {
    **BRISK_SESSIONS,  # a node that stands still is replaced soon
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
}

Strike = Callable[[ReplicatedCluster, str, str], int]  # the number of the node that was struck


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(PenstockSoftware(), tmp_path / "cluster", settings=SETTINGS) as made:
        made.start()
        for topic in (ORDERS, COPIES):
            create_replicated(made, topic, partitions=PARTITIONS)
        yield made


def coordinator(cluster: ReplicatedCluster, topic: str, key: str) -> int:
    index = partition_of(key, partition_count=INTERNAL_PARTITIONS)
    return leader_of(cluster, topic, index)


def kill(cluster: ReplicatedCluster, topic: str, key: str) -> int:
    """The node of the coordinator."""
    number = coordinator(cluster, topic, key)
    cluster.nodes[number].end(signal.SIGKILL)
    return number


def pause(cluster: ReplicatedCluster, topic: str, key: str) -> int:
    """The node of the coordinator stands still until another one has its place."""
    number = coordinator(cluster, topic, key)
    index = partition_of(key, partition_count=INTERNAL_PARTITIONS)
    other = next(address for one, address in cluster.addresses.items() if one != number)
    os.kill(cluster.nodes[number].pid, signal.SIGSTOP)
    try:
        until(
            "another coordinator",
            lambda: partition_states(other, topic)[index].leader not in (number, None),
        )
    finally:
        os.kill(cluster.nodes[number].pid, signal.SIGCONT)
    return number


def restart(cluster: ReplicatedCluster, number: int, topic: str) -> None:
    """Two replicas are needed: the next node is struck when there are three again."""
    if not cluster.nodes[number].running:
        cluster.start(number)
    for name in (topic, ORDERS, COPIES):
        until_in_sync(cluster, name)


class WatchedOffsets:
    """The committed offsets of a group: whenever they are asked for, none has gone back."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._consumer = committed_consumer(bootstrap, group=group)
        self._places = [TopicPartition(ORDERS, index) for index in range(PARTITIONS)]
        self.offsets = [-1] * PARTITIONS
        self._looks_answered = 0

    def look(self) -> list[int]:
        """As they are now, or were at the last look while no coordinator answers."""
        try:
            found = self._consumer.committed(self._places, timeout=PATIENCE_SECONDS)
        except KafkaException as error:
            assert error.args[0].code() in MOVED, error
            return self.offsets
        offsets = [max(place.offset, -1) for place in found]
        back = [(was, now) for was, now in zip(self.offsets, offsets, strict=True) if now < was]
        assert not back, f"committed offsets went back: {back}"
        self.offsets = offsets
        self._looks_answered += 1
        return offsets

    def until_answered(self) -> list[int]:
        """What the first coordinator that answers says, right or wrong."""
        answered = self._looks_answered

        def is_answered() -> bool:
            self.look()
            return self._looks_answered > answered

        until("a coordinator says what is committed", is_answered)
        return self.offsets

    def until_all_are_higher(self) -> None:
        before = self.look()

        def are_higher() -> bool:
            return all(now > was for was, now in zip(before, self.look(), strict=True))

        until(f"offsets above {before} are committed", are_higher)

    def close(self) -> None:
        self._consumer.close()


def group_epoch(cluster: ReplicatedCluster, group: str) -> int:
    number = coordinator(cluster, OFFSETS_TOPIC, group)
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    found: list[int] = []

    def is_described() -> bool:
        with closing(Dialogue(cluster.addresses[number], "")) as dialogue:
            [described] = dialogue.exchange(request, version=0).groups
        found.append(described.group_epoch)
        return described.error_code == 0

    until(f"group {group} is described", is_described)
    return found[-1]


@pytest.mark.parametrize("strike", [kill, pause])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_keep_their_partitions_when_their_coordinator_moves(
    cluster: ReplicatedCluster, protocol: str, strike: Strike
) -> None:
    group = GroupOfMembers(
        bootstrap=cluster.bootstrap, topic=ORDERS, partitions=PARTITIONS, group=protocol
    )
    watched = WatchedOffsets(cluster.bootstrap, protocol)
    feeding = SteadyProducer(
        bootstrap=cluster.bootstrap, topic=ORDERS, partitions=PARTITIONS, pause_seconds=0.1
    )
    try:
        with feeding:
            members = [
                group.start(python_member("confluent_member"), group_protocol=protocol)
                for _ in range(2)
            ]
            group.await_shared_by(*members)
            watched.until_all_are_higher()
            changes = [member.changes for member in members]
            owned = [member.owned for member in members]
            epoch = group_epoch(cluster, protocol) if protocol == "consumer" else 0
            for _ in range(2):
                number = strike(cluster, OFFSETS_TOPIC, protocol)
                watched.until_all_are_higher()
                assert coordinator(cluster, OFFSETS_TOPIC, protocol) != number
                restart(cluster, number, OFFSETS_TOPIC)
                watched.until_all_are_higher()
        assert [member.owned for member in members] == owned
        assert [member.changes for member in members] == changes
        if protocol == "consumer":
            assert group_epoch(cluster, protocol) == epoch
        group.await_read(feeding.stored)
    finally:
        group.end()
        watched.close()


def commit(consumer: Consumer, offset: int) -> None:
    """Of all partitions, again and again until it is acked."""
    places = [TopicPartition(ORDERS, index, offset) for index in range(PARTITIONS)]

    def is_acked() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            assert error.args[0].code() in MOVED, error
            return False
        return True

    until(f"the commit of {offset} is acked", is_acked)


def test_offset_commit_failure(cluster: ReplicatedCluster) -> None:
    """The coordinator is killed between and during commits: what was acked is there, and a commit
    that failed can be repeated.
    """
    group = "ledger"
    consumer = committed_consumer(cluster.bootstrap, group=group)
    watched = WatchedOffsets(cluster.bootstrap, group)
    offset = 0
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            for _ in range(COMMITS_BETWEEN):
                offset += 1
                commit(consumer, offset)
            striking = pool.submit(kill, cluster, OFFSETS_TOPIC, group)
            while not striking.done():
                offset += 1
                commit(consumer, offset)
            offset += 1
            commit(consumer, offset)
            assert watched.until_answered() == [offset] * PARTITIONS
            restart(cluster, striking.result(), OFFSETS_TOPIC)
    watched.close()
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_record_is_copied_once_while_coordinators_are_killed(
    cluster: ReplicatedCluster, protocol: str
) -> None:
    copier = Copier(cluster.bootstrap, ORDERS, COPIES, name=protocol, protocol=protocol)
    feeding = SteadyProducer(
        bootstrap=cluster.bootstrap, topic=ORDERS, partitions=PARTITIONS, pause_seconds=0.1
    )
    watched = WatchedOffsets(cluster.bootstrap, protocol)
    copier.start()
    try:
        with feeding:
            for topic in (TRANSACTION_TOPIC, OFFSETS_TOPIC) * 2:
                copier.await_commits(COMMITS_BETWEEN)
                number = kill(cluster, topic, protocol)
                copier.await_commits(COMMITS_BETWEEN)
                watched.until_all_are_higher()
                restart(cluster, number, topic)
        orders = records_by_partition(cluster, ORDERS)
        ends = [len(records) for records in orders.values()]
        until("all is copied", lambda: watched.look() == ends)
        assert copier.assignments == 1
    finally:
        copier.finish()
        watched.close()
    assert records_by_partition(cluster, COPIES) == orders


def records_by_partition(cluster: ReplicatedCluster, topic: str) -> dict[int, list[bytes]]:
    """What readers of committed records see."""
    found: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    for record in all_records(cluster.bootstrap, topic, partitions=PARTITIONS):
        found[record.partition].append(record.value)
    return found
