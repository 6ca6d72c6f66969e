"""Groups and transactions go on when the node of their coordinator is killed.

Three nodes as processes, all topics with three replicas. Members keep their partitions over the
move of the coordinator; what was committed does not go back; nothing is copied twice or not at all.
"""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.copying import Copier
from rig.failover.questions import all_records, create_replicated, leader_of, until_in_sync
from rig.members.member import GroupOfMembers, python_member
from rig.steady_producer import SteadyProducer
from rig.transactional.confluent import committed_consumer

ORDERS, COPIES = "orders", "copies"
TRANSACTION_TOPIC = "__transaction_state"
PARTITIONS = 4
INTERNAL_PARTITIONS = 6
COMMITS_BETWEEN = 5
PATIENCE_SECONDS = 120.0
SETTINGS = {
    **BRISK_SESSIONS,
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
}


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


class WatchedOffsets:
    """The committed offsets of a group: whenever they are asked for, none has gone back."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._consumer = committed_consumer(bootstrap, group=group)
        self._places = [TopicPartition(ORDERS, index) for index in range(PARTITIONS)]
        self.offsets = [-1] * PARTITIONS

    def look(self) -> list[int]:
        found = self._consumer.committed(self._places, timeout=PATIENCE_SECONDS)
        offsets = [max(place.offset, -1) for place in found]
        back = [(was, now) for was, now in zip(self.offsets, offsets, strict=True) if now < was]
        assert not back, f"committed offsets went back: {back}"
        self.offsets = offsets
        return offsets

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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_keep_their_partitions_when_their_coordinator_is_killed(
    cluster: ReplicatedCluster, protocol: str
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
                number = coordinator(cluster, OFFSETS_TOPIC, protocol)
                cluster.nodes[number].end(signal.SIGKILL)
                watched.until_all_are_higher()
                assert coordinator(cluster, OFFSETS_TOPIC, protocol) != number
                cluster.start(number)
                until_in_sync(cluster, OFFSETS_TOPIC)
                watched.until_all_are_higher()
        assert [member.owned for member in members] == owned
        assert [member.changes for member in members] == changes
        if protocol == "consumer":
            assert group_epoch(cluster, protocol) == epoch
        group.await_read(feeding.stored)
    finally:
        group.end()
        watched.close()


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
                number = coordinator(cluster, topic, protocol)
                cluster.nodes[number].end(signal.SIGKILL)
                copier.await_commits(COMMITS_BETWEEN)
                watched.until_all_are_higher()
                cluster.start(number)
                until_in_sync(cluster, topic)
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
