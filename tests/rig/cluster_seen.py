"""What a doctor may have seen of a cluster of three brokers where nothing is wrong, and changes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.client.admin.admin import LogDirectory, ReplicaSize
from penstock.client.admin.last_batches import StoredBatch
from penstock.client.network.routing import BrokerView, PartitionView, TopicView
from penstock.doctor.finding import Advice, Command, Finding
from penstock.doctor.seen import AclsSeen, ClockSeen, ClusterSeen, DescriptorsSeen
from penstock.model.identity import NO_TOPIC_ID, NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.listener import SecurityProtocol
from penstock.records.compression import Codec
from penstock.records.layout import TimestampType
from penstock.world.ports import Address

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "min.insync.replicas": "2",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "compression.type": "producer",
}
ALL = (1, 2, 3)


def partition(
    index: int = 0,
    replicas: tuple[int, ...] = ALL,
    *,
    in_sync: tuple[int, ...] | None = None,
    leader: int | None = -1,
) -> PartitionView:
    led = replicas[0] if leader == -1 else leader
    return PartitionView(
        index=index,
        leader=None if led is None else NodeId(led),
        leader_epoch=LeaderEpoch(0),
        replicas=tuple(map(NodeId, replicas)),
        in_sync=tuple(map(NodeId, replicas if in_sync is None else in_sync)),
    )


def topic(name: str, *partitions: PartitionView) -> TopicView:
    return TopicView(
        name=name,
        topic_id=NO_TOPIC_ID,
        internal=name.startswith("__"),
        partitions=partitions or (partition(),),
    )


def batch(**changes: Any) -> StoredBatch:
    whole = StoredBatch(
        base_offset=Offset(0),
        codec=Codec.ZSTD,
        producer_id=7,
        size_bytes=4_000,
        timestamp_ms_max=NOW_MS,
        timestamp_type=TimestampType.CREATE_TIME,
    )
    return replace(whole, **changes)


def directory(
    node: int,
    sizes: Mapping[TopicPartition, int] | None = None,
    *,
    total_bytes: int | None = 1_000,
    usable_bytes: int | None = 900,
) -> LogDirectory:
    return LogDirectory(
        node_id=NodeId(node),
        path="/data",
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        replicas=tuple(
            ReplicaSize(partition=place, size_bytes=size, offset_lag=0, is_future=False)
            for place, size in (sizes or {}).items()
        ),
    )


def seen(
    *topics: TopicView,
    brokers: tuple[int, ...] = ALL,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    **changes: Any,
) -> ClusterSeen:
    """With the topic `orders` if none is given; `settings` are those that differ, by topic."""
    known = {one.name: one for one in topics or (topic("orders"),)}
    whole = ClusterSeen(
        at_ms=NOW_MS,
        protocol=SecurityProtocol.SASL_SSL,
        brokers={
            NodeId(node): BrokerView(
                node_id=NodeId(node), address=Address(host="localhost", port=node)
            )
            for node in brokers
        },
        topics=known,
        topic_settings={name: SETTINGS | dict((settings or {}).get(name, {})) for name in known},
        broker_settings={NodeId(node): {"listeners": "SASL_SSL://:1"} for node in brokers},
        directories={NodeId(node): (directory(node),) for node in brokers},
        descriptors={NodeId(node): DescriptorsSeen(open=40, limit=1_024) for node in brokers},
        batches={TopicPartition(name, 0): (batch(),) for name in known},
        acls=AclsSeen(is_enabled=True),
        clock=ClockSeen(node_id=NodeId(1), ahead_ms=3, within_ms=1),
        clocks={
            NodeId(node): ClockSeen(node_id=NodeId(node), ahead_ms=-3, within_ms=9)
            for node in brokers
        },
    )
    return replace(whole, **changes)


def commands(found: Finding) -> list[str]:
    return [" ".join(one.words()) for one in found.mends if isinstance(one, Command)]


def advice(found: Finding) -> list[str]:
    return [one.line() for one in found.mends if isinstance(one, Advice)]
