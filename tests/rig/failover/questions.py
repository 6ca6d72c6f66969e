"""What the tests ask of a cluster with replicated partitions, in protocol messages."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, TopicPartition

from penstock.model.error import ErrorCode
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from rig.clients.confluent import QUIET
from rig.cluster_questions import ClusterOfProcesses, is_whole, until
from rig.dialogue import Dialogue
from rig.failover.acked_records import FoundRecord

TIMEOUT_MS = 30_000
LATEST = -1
READ_SECONDS_MAX = 60.0  # without a record
READ_SECONDS_AT_ONCE = 0.2


class PartitionState(NamedTuple):
    """As a node shows it to clients."""

    leader: int | None
    leader_epoch: int
    replicas: frozenset[int]
    in_sync: frozenset[int]


def create_replicated(
    cluster: ClusterOfProcesses,
    topic: str,
    *,
    partitions: int,
    replicas: int = 3,
    settings: Mapping[str, str] | None = None,
) -> bytes:
    """The id of a topic whose replicas are all in sync."""
    configs = [
        CreatableTopicConfig(name=name, value=value) for name, value in (settings or {}).items()
    ]
    wanted = CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=replicas, configs=configs
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
    with closing(Dialogue(next(iter(cluster.addresses.values())), "")) as dialogue:
        [created] = dialogue.exchange(request, version=7).topics
    assert created.error_code == ErrorCode.NONE, f"{topic}: {created.error_message}"
    until(f"{topic} is in sync", lambda: is_in_sync(cluster, topic))
    return bytes(created.topic_id)


def partition_states(address: str, topic: str) -> dict[int, PartitionState]:
    """Empty where the node does not know the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with closing(Dialogue(address, "")) as dialogue:
        [shown] = dialogue.exchange(request, version=12).topics
    return {
        one.partition_index: PartitionState(
            leader=one.leader_id if one.leader_id >= 0 else None,
            leader_epoch=one.leader_epoch,
            replicas=frozenset(one.replica_nodes),
            in_sync=frozenset(one.isr_nodes),
        )
        for one in shown.partitions
    }


def is_in_sync(cluster: ClusterOfProcesses, topic: str) -> bool:
    """Whether every node shows a leader and all replicas in sync, the same for each partition."""
    shown = [partition_states(address, topic) for address in cluster.addresses.values()]
    return all(one == shown[0] for one in shown) and bool(shown[0]) and all(
        state.leader is not None and state.in_sync == state.replicas
        for state in shown[0].values()
    )  # fmt: skip


def until_in_sync(cluster: ClusterOfProcesses, topic: str) -> None:
    until("the cluster is whole", lambda: is_whole(cluster))
    until(f"{topic} is in sync", lambda: is_in_sync(cluster, topic))


def leader_of(cluster: ClusterOfProcesses, topic: str, partition: int) -> int:
    """As one of the nodes that run shows it, once it has one."""
    found: list[int] = []

    def is_led() -> bool:
        for number, address in cluster.addresses.items():
            if cluster.nodes[number].running:
                leader = partition_states(address, topic)[partition].leader
                if leader is not None:
                    found.append(leader)
                    return True
        return False

    until(f"a leader of {topic}-{partition}", is_led)
    return found[0]


def high_watermarks(cluster: ClusterOfProcesses, topic: str) -> dict[int, int]:
    """Of all partitions, as their leaders say."""
    states = partition_states(next(iter(cluster.addresses.values())), topic)
    found: dict[int, int] = {}

    def are_known() -> bool:
        for index, state in states.items():
            assert state.leader is not None
            asked = ListOffsetsPartition(
                partition_index=index, timestamp=LATEST, current_leader_epoch=-1
            )
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
            )
            with closing(Dialogue(cluster.addresses[state.leader], "")) as dialogue:
                [answer] = dialogue.exchange(request, version=7).topics[0].partitions
            if answer.error_code != ErrorCode.NONE:
                return False
            found[index] = int(answer.offset)
        return True

    until(f"high watermarks of {topic}", are_known)
    return found


def held_back_partitions(cluster: ClusterOfProcesses) -> dict[str, str]:
    """What readers of committed records cannot get yet, by the name of the partition."""
    address = next(iter(cluster.addresses.values()))
    with closing(Dialogue(address, "")) as dialogue:
        topics = dialogue.exchange(MetadataRequest(topics=None), version=12).topics
    led: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for partition in topic.partitions:
            of_leader = led.setdefault(partition.leader_id, {})
            of_leader.setdefault(topic.name, []).append(partition.partition_index)
    held: dict[str, str] = {}
    for leader, partitions in led.items():
        if leader not in cluster.addresses:
            raise OSError(f"no leader: {partitions}")
        # High watermarks first: what is written meanwhile holds nobody back.
        ends = latest_offsets(cluster.addresses[leader], partitions, committed=False)
        stable = latest_offsets(cluster.addresses[leader], partitions, committed=True)
        held |= {
            f"{topic}-{index}": f"committed records end at {stable[topic, index]} of {end}"
            for (topic, index), end in ends.items()
            if stable[topic, index] < end
        }
    return held


def latest_offsets(
    address: str, partitions: Mapping[str, list[int]], *, committed: bool
) -> dict[tuple[str, int], int]:
    """Where partitions that this node leads end, for readers of committed records or for all."""
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index, timestamp=LATEST, current_leader_epoch=-1
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in partitions.items()
        ],
    )
    with closing(Dialogue(address, "")) as dialogue:
        answers = dialogue.exchange(request, version=7).topics
    found = {
        (topic.name, one.partition_index): one for topic in answers for one in topic.partitions
    }
    for one in found.values():
        if one.error_code != ErrorCode.NONE:
            raise OSError(f"{address}: {ErrorCode(one.error_code).name}")
    return {place: int(one.offset) for place, one in found.items()}


def all_records(bootstrap: str, topic: str, *, partitions: int) -> Iterator[FoundRecord]:
    """From the start of each partition to its end, as a consumer reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "unused-by-assignment",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    ended: set[int] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        while len(ended) < partitions:
            # It waits until it has as many as asked for, or for all of the time.
            messages = consumer.consume(1000, timeout=READ_SECONDS_AT_ONCE)
            now = time.monotonic()
            assert messages or now < deadline, (
                f"{len(ended)} of {partitions} partitions could be read to the end"
            )
            if messages:
                deadline = now + READ_SECONDS_MAX
            for message in messages:
                error, partition, offset = message.error(), message.partition(), message.offset()
                assert partition is not None
                if error is None:
                    value = message.value()
                    assert offset is not None and isinstance(value, bytes)
                    yield FoundRecord(partition, offset, value)
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ended.add(partition)
                elif not error.retriable():
                    raise AssertionError(f"{topic}-{partition}: {error}")
    finally:
        consumer.close()


def eventually_none(faults: Callable[[], list[str]]) -> list[str]:
    """What is still wrong after our patience; nothing as soon as nothing is."""
    found: list[str] = []

    def is_right() -> bool:
        found[:] = faults()
        return not found

    try:
        until("nothing is wrong", is_right)
    except AssertionError:
        assert found
    return found
