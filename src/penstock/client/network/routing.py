"""What a client knows of the cluster: brokers, topics, and who leads which partition.

A `ClusterView` is a value; each metadata reply makes a new one from the one before (`merged`).
Knowledge of a partition only moves forward: a reply from a broker that lags behind does not take
back a newer leader epoch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from penstock.client.network.errors import error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch
from penstock.wire.messages.describe_cluster import DescribeClusterResponse
from penstock.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.world.ports import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    node_id: NodeId
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    index: int
    leader: NodeId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...] = ()
    in_sync: tuple[NodeId, ...] = ()
    offline: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    name: str
    topic_id: TopicId
    internal: bool
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    cluster_id: str | None = None
    controller: NodeId | None = None
    brokers: Mapping[NodeId, BrokerView] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    errors: Mapping[str, ErrorCode] = field(
        default_factory=dict
    )  # topics that a broker had an error for

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        view = topic.partitions[partition.partition]
        return view if view.index == partition.partition else None

    def leader_of(self, partition: TopicPartition) -> NodeId | None:
        view = self.partition(partition)
        if view is None or view.leader not in self.brokers:
            return None
        return view.leader

    def topic_id(self, topic: str) -> TopicId:
        known = self.topics.get(topic)
        return NO_TOPIC_ID if known is None else known.topic_id

    def topic_names(self) -> dict[TopicId, str]:
        """Names by id, for replies that tell topics by id only."""
        return {topic.topic_id: topic.name for topic in self.topics.values()}

    def ids_known(self, topics: Iterable[str]) -> bool:
        """Whether requests may tell these topics by id: brokers before 2.8 give none."""
        return all(self.topic_id(topic) != NO_TOPIC_ID for topic in topics)


def merged(view: ClusterView, reply: MetadataResponse, *, all_topics: bool) -> ClusterView:
    """The view after a reply; `all_topics` when the reply tells every topic that there is."""
    topics = {} if all_topics else dict(view.topics)
    errors = {} if all_topics else dict(view.errors)
    for topic in reply.topics:
        name = topic.name or ""
        code = error_code(topic.error_code)
        errors.pop(name, None)
        if code == ErrorCode.NONE:
            topics[name] = _topic(topic, view.topics.get(name))
        else:
            errors[name] = code
            topics.pop(name, None)
    return replace(
        view,
        cluster_id=reply.cluster_id or view.cluster_id,
        controller=None if reply.controller_id < 0 else NodeId(reply.controller_id),
        brokers={
            NodeId(broker.node_id): BrokerView(
                node_id=NodeId(broker.node_id),
                address=Address(host=broker.host, port=broker.port),
                rack=broker.rack,
            )
            for broker in reply.brokers
        },
        topics=topics,
        errors=errors,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLeader:
    """Whom a broker that refused a request named as the leader (KIP-951)."""

    partition: TopicPartition
    leader: BrokerView
    leader_epoch: LeaderEpoch


def led_elsewhere(view: ClusterView, named: Iterable[NamedLeader]) -> ClusterView:
    """The view after refusals that name leaders: those of later leader epochs than are known."""
    brokers, topics = dict(view.brokers), dict(view.topics)
    for one in named:
        topic, known = topics.get(one.partition.topic), view.partition(one.partition)
        if topic is None or known is None or known.leader_epoch >= one.leader_epoch:
            continue
        brokers[one.leader.node_id] = one.leader
        moved = replace(known, leader=one.leader.node_id, leader_epoch=one.leader_epoch)
        topics[topic.name] = replace(
            topic,
            partitions=tuple(
                moved if partition.index == moved.index else partition
                for partition in topic.partitions
            ),
        )
    return replace(view, brokers=brokers, topics=topics)


def controllers_view(reply: DescribeClusterResponse) -> ClusterView:
    """The view of a client that knows controllers only."""
    return ClusterView(
        cluster_id=reply.cluster_id,
        controller=None if reply.controller_id < 0 else NodeId(reply.controller_id),
        brokers={
            NodeId(one.broker_id): BrokerView(
                node_id=NodeId(one.broker_id), address=Address(host=one.host, port=one.port)
            )
            for one in reply.brokers
        },
    )


def _topic(topic: MetadataResponseTopic, known: TopicView | None) -> TopicView:
    partitions = sorted(
        (_partition(partition) for partition in topic.partitions), key=lambda p: p.index
    )
    if known is not None and known.topic_id == topic.topic_id:
        newest = {partition.index: partition for partition in known.partitions}
        partitions = [_newer(partition, newest.get(partition.index)) for partition in partitions]
    return TopicView(
        name=topic.name or "",
        topic_id=TopicId(topic.topic_id),
        internal=topic.is_internal,
        partitions=tuple(partitions),
    )


def _newer(told: PartitionView, known: PartitionView | None) -> PartitionView:
    return known if known is not None and known.leader_epoch > told.leader_epoch else told


def _partition(partition: MetadataResponsePartition) -> PartitionView:
    return PartitionView(
        index=partition.partition_index,
        leader=None if partition.leader_id < 0 else NodeId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        replicas=tuple(map(NodeId, partition.replica_nodes)),
        in_sync=tuple(map(NodeId, partition.isr_nodes)),
        offline=tuple(map(NodeId, partition.offline_replicas)),
    )
