"""What an operator asks of a cluster: topics, settings, records, log directories.

Each method is one request of the protocol, or one to each broker concerned. What concerns one topic
or one resource is answered for each by itself: a value, or Refused in its place; `first_refusal` is
for those who want an exception. Trouble with the whole request is raised.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import Listed, list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.client.network.routing import ClusterView, TopicView
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

Value = TypeVar("Value")

BROKERS_DECIDE = -1  # the number of partitions or replicas is the broker's default


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partitions: int = BROKERS_DECIDE
    replicas: int = BROKERS_DECIDE
    settings: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()  # the replicas of each partition, leader first


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    node_id: NodeId
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    cluster_id: str
    controller: NodeId | None
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    node_id: NodeId
    path: str
    total_bytes: int | None
    usable_bytes: int | None
    replicas: tuple[ReplicaSize, ...]
    error: Refused | None = None  # why the broker cannot use it


class Admin:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicId | Refused]:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        reply = await self.cluster.ask_controller(request, CreateTopicsResponse)
        return {
            told.name: _or_refused(
                TopicId(told.topic_id), told.error_code, told.name, told.error_message
            )
            for told in reply.topics
        }

    async def replicas_by_default(self, topic: str) -> int | None:
        """How many replicas the brokers would give a new topic of this name; None if they do not
        say so. Nothing is created.
        """
        wanted = NewTopic(name=topic, partitions=1, replicas=BROKERS_DECIDE)
        request = CreateTopicsRequest(
            topics=[_creatable(wanted)], timeout_ms=self._timeout_ms, validate_only=True
        )
        reply = await self.cluster.ask_controller(request, CreateTopicsResponse)
        counts = (told.replication_factor for told in reply.topics)
        return next((count for count in counts if count > 0), None)

    async def delete_topics(self, names: Iterable[str]) -> dict[str, Refused | None]:
        wanted = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted],
            topic_names=wanted,
            timeout_ms=self._timeout_ms,
        )
        reply = await self.cluster.ask_controller(request, DeleteTopicsResponse)
        return {
            told.name or "": _or_refused(None, told.error_code, told.name or "", told.error_message)
            for told in reply.responses
        }

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, Refused | None]:
        """Raises the number of partitions of each topic to so many."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        reply = await self.cluster.ask_controller(request, CreatePartitionsResponse)
        return {
            told.name: _or_refused(None, told.error_code, told.name, told.error_message)
            for told in reply.results
        }

    async def topics(self) -> ClusterView:
        """All topics that there are."""
        return await self.cluster.refresh_all()

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicView | Refused]:
        wanted = list(names)
        view = await self.cluster.refresh(wanted)
        return {
            name: view.topics.get(name)
            or Refused(
                view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                name,
                "there is no such topic" if view.errors.get(name) in _NO_TOPIC else None,
            )
            for name in wanted
        }

    async def describe_cluster(self) -> ClusterDescription:
        """Fenced brokers too, where brokers tell of them: since 4.0."""
        request = DescribeClusterRequest(include_fenced_brokers=True)
        reply = await self.cluster.ask_any(request, DescribeClusterResponse)
        code = error_code(reply.error_code)
        if code != ErrorCode.NONE:
            raise Refused(code, "cluster", reply.error_message)
        return ClusterDescription(
            cluster_id=reply.cluster_id,
            controller=None if reply.controller_id < 0 else NodeId(reply.controller_id),
            brokers=tuple(
                BrokerDescription(
                    node_id=NodeId(broker.broker_id),
                    host=broker.host,
                    port=broker.port,
                    rack=broker.rack,
                    fenced=broker.is_fenced,
                )
                for broker in reply.brokers
            ),
        )

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> Listed:
        """Offsets by time; see `offsets.When` for the times that are none."""
        return await list_offsets(self.cluster, wanted, isolation=isolation)

    async def delete_records(
        self, before: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset | Refused]:
        """Drops records below an offset (-1: all); the answer is the first one left."""
        await self.cluster.need(dict.fromkeys(partition.topic for partition in before))
        await self.cluster.refresh()
        found: dict[TopicPartition, Offset | Refused] = {}
        by_leader: dict[NodeId, dict[TopicPartition, Offset]] = {}
        for partition, offset in before.items():
            leader = self.cluster.view.leader_of(partition)
            if leader is None:
                known = self.cluster.view.partition(partition) is not None
                missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                code = ErrorCode.LEADER_NOT_AVAILABLE if known else missing
                found[partition] = Refused(code, str(partition))
            else:
                by_leader.setdefault(leader, {})[partition] = offset
        for leader, part in by_leader.items():
            found.update(await self._delete_records_at(leader, part))
        return found

    async def log_directories(
        self,
        nodes: Iterable[NodeId] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[NodeId, list[LogDirectory] | Refused]:
        """What each broker stores where, and how large it is: all, or these partitions of it."""
        if nodes is None:
            nodes = list((await self.cluster.refresh()).brokers)
        found: dict[NodeId, list[LogDirectory] | Refused] = {}
        request = DescribeLogDirsRequest(topics=_described(partitions))
        for node in nodes:
            reply = await self.cluster.ask(node, request, DescribeLogDirsResponse)
            code = error_code(reply.error_code)
            found[node] = (
                _log_directories(node, reply)
                if code == ErrorCode.NONE
                else Refused(code, f"broker {node}")
            )
        return found

    @property
    def _timeout_ms(self) -> int:
        return self.cluster.rules.request_ms_max

    async def _delete_records_at(
        self, leader: NodeId, before: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset | Refused]:
        topics: dict[str, DeleteRecordsTopic] = {}
        for (name, index), offset in before.items():
            topic = topics.setdefault(name, DeleteRecordsTopic(name=name))
            topic.partitions.append(DeleteRecordsPartition(partition_index=index, offset=offset))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=self._timeout_ms)
        reply = await self.cluster.ask(leader, request, DeleteRecordsResponse)
        return {
            (place := TopicPartition(told_topic.name, told.partition_index)): _or_refused(
                Offset(told.low_watermark), told.error_code, str(place), None
            )
            for told_topic in reply.topics
            for told in told_topic.partitions
        }


def first_refusal(results: Iterable[object]) -> None:
    """Raises the first Refused among results."""
    for result in results:
        if isinstance(result, Refused):
            raise result


_NO_TOPIC = (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _or_refused(value: Value, code: int, about: str, message: str | None) -> Value | Refused:
    found = error_code(code)
    return value if found == ErrorCode.NONE else Refused(found, about, message)


def _creatable(topic: NewTopic) -> CreatableTopic:
    # With replicas placed by hand the protocol wants both numbers left open.
    by_hand = len(topic.assignment) > 0
    return CreatableTopic(
        name=topic.name,
        num_partitions=BROKERS_DECIDE if by_hand else topic.partitions,
        replication_factor=BROKERS_DECIDE if by_hand else topic.replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(topic.assignment)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.settings.items()
        ],
    )


def _described(
    partitions: Iterable[TopicPartition] | None,
) -> list[DescribableLogDirTopic] | None:
    if partitions is None:
        return None
    topics: dict[str, DescribableLogDirTopic] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, DescribableLogDirTopic(topic=name))
        topic.partitions.append(index)
    return list(topics.values())


def _log_directories(node: NodeId, reply: DescribeLogDirsResponse) -> list[LogDirectory]:
    return [
        LogDirectory(
            node_id=node,
            path=told.log_dir,
            total_bytes=None if told.total_bytes < 0 else told.total_bytes,
            usable_bytes=None if told.usable_bytes < 0 else told.usable_bytes,
            replicas=tuple(
                ReplicaSize(
                    partition=TopicPartition(topic.name, partition.partition_index),
                    size_bytes=partition.partition_size,
                    offset_lag=partition.offset_lag,
                    is_future=partition.is_future_key,
                )
                for topic in told.topics
                for partition in topic.partitions
            ),
            error=_or_refused(None, told.error_code, told.log_dir, None),
        )
        for told in reply.results
    ]
