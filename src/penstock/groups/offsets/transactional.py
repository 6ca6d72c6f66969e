"""TxnOffsetCommit: offsets that become valid when their transaction is committed, and its end."""

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.decision_context import DecisionContext
from penstock.groups.group import Group, check_commit, check_partition_commit
from penstock.groups.offsets.commit import utf16_length
from penstock.groups.offsets.pending import PendingOffsets
from penstock.groups.records import (
    GroupRecord,
    OffsetValue,
    TransactionalOffset,
    TransactionEnded,
)
from penstock.groups.requests import Asked
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_COMMIT = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """A marker: the pending offsets of a producer are committed or dropped."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStableOffsets:
    """An OffsetFetch with `require_stable`."""

    request: OffsetFetchRequestGroup


def decide_transactional_commit(
    group: Group | None, context: DecisionContext, asked: Asked[TxnOffsetCommitRequest]
) -> Decision[GroupRecord, TxnOffsetCommitResponse]:
    request = asked.request
    known = sum(
        _exists(context, topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    refused = ErrorCode.NONE
    if known > DECISION_RECORDS_MAX:
        refused = ErrorCode.UNKNOWN_SERVER_ERROR
    elif known:
        refused = _check_member(group, asked)
    records: list[GroupRecord] = []
    answers = []
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        answers.append(answer)
        for partition in topic.partitions:
            code = refused
            if not _exists(context, topic.name, partition.partition_index):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif refused is ErrorCode.NONE:
                code = _check_partition(group, context, request, topic.name, partition)
            if code is ErrorCode.NONE:
                records.append(_record(context, request, topic.name, partition))
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code
                )
            )
    return Decision(reply=TxnOffsetCommitResponse(topics=answers), records=tuple(records))


def refuse_transactional_commit(
    request: TxnOffsetCommitRequest, code: ErrorCode
) -> TxnOffsetCommitResponse:
    """The reply with one error code for all partitions."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def decide_end(request: EndTransaction) -> Decision[GroupRecord, bool]:
    ended = TransactionEnded(
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        coordinator_epoch=request.coordinator_epoch,
        committed=request.committed,
    )
    return Decision(reply=True, records=(ended,))


def mark_unstable(
    reply: OffsetFetchResponseGroup, pending: PendingOffsets, context: DecisionContext
) -> None:
    """Replaces offsets with a pending transactional commit by UNSTABLE_OFFSET_COMMIT."""
    for topic in reply.topics:
        by_id = context.image.topics_by_id.get(TopicId(topic.topic_id))
        name = topic.name or ("" if by_id is None else by_id.name)
        for partition in topic.partitions:
            if pending.is_pending(reply.group_id, name, partition.partition_index):
                partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                partition.committed_offset = NO_COMMIT
                partition.committed_leader_epoch = NO_EPOCH
                partition.metadata = ""


def _check_member(group: Group | None, asked: Asked[TxnOffsetCommitRequest]) -> ErrorCode:
    request = asked.request
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    code = check_commit(
        group,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        epoch=request.generation_id,
        version=asked.version,
        transactional=True,
    )
    return _code_for_clients(code)


def _check_partition(
    group: Group | None,
    context: DecisionContext,
    request: TxnOffsetCommitRequest,
    topic: str,
    partition: TxnOffsetCommitRequestPartition,
) -> ErrorCode:
    """A member whose epoch is behind may have lost the partition since."""
    length_max = context.settings.offset_metadata_max_bytes
    if utf16_length(partition.committed_metadata or "") > length_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    topic_id = context.image.topics_by_name[topic].topic_id
    code = check_partition_commit(
        group,
        member_id=request.member_id,
        epoch=request.generation_id,
        partition=TopicIdPartition(topic_id, partition.partition_index),
    )
    return _code_for_clients(code)


def _code_for_clients(code: ErrorCode) -> ErrorCode:
    """Clients know only the word of old for an epoch that is behind."""
    return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code


def _exists(context: DecisionContext, topic: str, partition: int) -> bool:
    found = context.image.topics_by_name.get(topic)
    return found is not None and 0 <= partition < len(found.partitions)


def _record(
    context: DecisionContext,
    request: TxnOffsetCommitRequest,
    topic: str,
    partition: TxnOffsetCommitRequestPartition,
) -> TransactionalOffset:
    epoch = partition.committed_leader_epoch
    return TransactionalOffset(
        producer_id=ProducerId(request.producer_id),
        producer_epoch=ProducerEpoch(request.producer_epoch),
        group=request.group_id,
        topic=topic,
        partition=partition.partition_index,
        value=OffsetValue(
            offset=partition.committed_offset,
            leader_epoch=None if epoch < 0 else epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp_ms=context.now_ms,
            topic_id=context.image.topics_by_name[topic].topic_id,
        ),
    )
