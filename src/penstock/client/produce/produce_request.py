"""Batches to a Produce request, and its reply to what became of each batch."""

from collections.abc import Sequence
from enum import IntEnum

from penstock.client.network.errors import BrokenProtocol, ClientError, Refused, error_code
from penstock.client.network.routing import BrokerView, ClusterView, NamedLeader
from penstock.client.produce.batch_stamp import stamp
from penstock.client.produce.pending_batch import PendingBatch
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.transactions.state import Identity
from penstock.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.world.ports import Address

NAMES_VERSION_MAX = 12  # beyond it topics are told by id
ADDED_BEFORE_VERSION_MAX = 11  # beyond it a write itself adds its partition to the transaction


class Generation(IntEnum):
    """The protocol of transactions that a producer speaks (KIP-890)."""

    ONE = 1  # it adds partitions before it writes to them, and keeps its epoch
    TWO = 2  # a write adds them, and every transaction has an epoch of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """As whom batches are written; for an idempotent producer without transactions, the epoch is
    the one that it begins with.
    """

    identity: Identity
    transactional_id: str | None = None
    generation: Generation = Generation.TWO


@dataclass(slots=True, kw_only=True)
class Appended:
    """A batch is in the log, or with acks=0 on its way there: then its offset is not known. The
    time is the broker's own, where the topic asks for that.
    """

    base_offset: Offset | None
    append_time_ms: int | None


def produce_request(
    batches: Sequence[PendingBatch],
    view: ClusterView,
    *,
    writer: Writer | None,
    acks: int,
    timeout_ms: int,
) -> ProduceRequest:
    """One request with these batches, stamped as their producer's where they have sequence
    numbers.
    """
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, index = batch.partition
        assert batch.data is not None
        if batch.sequence is not None:
            assert writer is not None
            assert batch.epoch is not None
            stamp(
                batch.data,
                producer_id=writer.identity.producer_id,
                epoch=batch.epoch,
                base_sequence=batch.sequence,
                transactional=writer.transactional_id is not None,
            )
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(name=name, topic_id=view.topic_id(name))
        topic.partition_data.append(PartitionProduceData(index=index, records=batch.data))
    return ProduceRequest(
        transactional_id=None if writer is None else writer.transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=list(topics.values()),
    )


def version_bound(request: ProduceRequest, view: ClusterView, writer: Writer | None) -> int | None:
    """The newest version that can say what the request says; None when any can."""
    if request.transactional_id is not None:
        assert writer is not None
        if writer.generation is Generation.ONE:
            return ADDED_BEFORE_VERSION_MAX
    by_id = view.ids_known(topic.name for topic in request.topic_data)
    return None if by_id else NAMES_VERSION_MAX


def outcome(
    reply: ProduceResponse, batches: Sequence[PendingBatch], view: ClusterView
) -> list[Appended | ClientError]:
    """What the reply says of each batch, in their order."""
    names = view.topic_names()
    told = {
        TopicPartition(
            topic.name or names.get(TopicId(topic.topic_id), ""), partition.index
        ): partition
        for topic in reply.responses
        for partition in topic.partition_responses
    }
    return [_outcome(batch.partition, told.get(batch.partition)) for batch in batches]


def named_leaders(reply: ProduceResponse, view: ClusterView) -> list[NamedLeader]:
    """The leaders that the broker names for batches which it refused (KIP-951)."""
    names = view.topic_names()
    brokers = {
        NodeId(one.node_id): BrokerView(
            node_id=NodeId(one.node_id),
            address=Address(host=one.host, port=one.port),
            rack=one.rack,
        )
        for one in reply.node_endpoints
    }
    return [
        NamedLeader(
            partition=TopicPartition(
                topic.name or names.get(TopicId(topic.topic_id), ""), partition.index
            ),
            leader=brokers[NodeId(leader.leader_id)],
            leader_epoch=LeaderEpoch(leader.leader_epoch),
        )
        for topic in reply.responses
        for partition in topic.partition_responses
        if (leader := partition.current_leader) is not None and leader.leader_id in brokers
    ]


def _outcome(
    partition: TopicPartition, told: PartitionProduceResponse | None
) -> Appended | ClientError:
    if told is None:
        return BrokenProtocol(f"{partition}: the broker's reply does not mention it")
    code = error_code(told.error_code)
    if code != ErrorCode.NONE:
        return Refused(code, str(partition), told.error_message)
    time_ms = told.log_append_time_ms
    return Appended(
        base_offset=Offset(told.base_offset), append_time_ms=time_ms if time_ms >= 0 else None
    )
