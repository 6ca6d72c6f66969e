"""OffsetCommit, with Kafka's checks in Kafka's order: topics, member, metadata."""

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.changes import SetDeadline
from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.decision_context import DecisionContext
from penstock.groups.group import Group, check_commit, check_partition_commit
from penstock.groups.offsets.topics import find_topic
from penstock.groups.records import GroupRecord, OffsetCommitted, OffsetValue
from penstock.groups.requests import Asked
from penstock.groups.timers import SessionEnds
from penstock.machine.decision import Decision
from penstock.metadata.image.topic import TopicImage
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

Committing = Asked[OffsetCommitRequest]
# Versions before this one know only generations; a group that is not there has none.
GROUP_NOT_FOUND_FROM = 9
TIMESTAMP_MS_MAX = 2**63 - 1
BROKER_DECIDES = -1  # a retention time that leaves it to the settings
HELD_BY_COMMITS = (ClassicState.STABLE, ClassicState.PREPARING)


def decide_commit(
    group: Group | None, context: DecisionContext, asked: Committing
) -> Decision[GroupRecord, object]:
    """Commits what can be committed; a partition that does not exist does not affect the others."""
    request = asked.request
    known = sum(
        1
        for topic in request.topics
        for partition in topic.partitions
        if _place(context, asked, topic, partition) is ErrorCode.NONE
    )
    refused = ErrorCode.NONE
    if known > DECISION_RECORDS_MAX:
        refused = ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka answers what no batch can hold
    elif known:
        refused = _check_member(group, asked)
    records: list[GroupRecord] = []
    topics = [
        _commit_topic(group, context, asked, topic, refused, records) for topic in request.topics
    ]
    session = () if refused or not known else _session(group, context, request.member_id)
    return Decision(
        reply=OffsetCommitResponse(topics=topics), records=tuple(records), volatile=session
    )


def refuse_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The reply with one error code for all partitions."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _check_member(group: Group | None, asked: Committing) -> ErrorCode:
    request = asked.request
    epoch = request.generation_id_or_member_epoch
    if group is not None:
        return check_commit(
            group,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            epoch=epoch,
            version=asked.version,
        )
    if epoch < 0:
        return ErrorCode.NONE  # a consumer without a group, or a tool: the group begins with this
    if asked.version >= GROUP_NOT_FOUND_FROM:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _commit_topic(
    group: Group | None,
    context: DecisionContext,
    asked: Committing,
    topic: OffsetCommitRequestTopic,
    refused: ErrorCode,
    records: list[GroupRecord],
) -> OffsetCommitResponseTopic:
    answers = []
    for partition in topic.partitions:
        code = _place(context, asked, topic, partition)
        metadata = partition.committed_metadata or ""
        if code is ErrorCode.NONE:
            code = refused or _check_partition(group, context, asked, topic, partition)
        if code is ErrorCode.NONE and utf16_length(metadata) > (
            context.settings.offset_metadata_max_bytes
        ):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        if code is ErrorCode.NONE:
            records.append(_record(context, asked, topic, partition, metadata))
        answers.append(
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
        )
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _place(
    context: DecisionContext,
    asked: Committing,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
) -> ErrorCode:
    """Whether there is such a partition."""
    found = find_topic(context, name=topic.name, topic_id=topic.topic_id, version=asked.version)
    if isinstance(found, ErrorCode):
        return found
    if 0 <= partition.partition_index < len(found.partitions):
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_partition(
    group: Group | None,
    context: DecisionContext,
    asked: Committing,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
) -> ErrorCode:
    """Whether the member speaks for the partition: one whose epoch is behind may have lost it."""
    found = find_topic(context, name=topic.name, topic_id=topic.topic_id, version=asked.version)
    assert isinstance(found, TopicImage), found
    return check_partition_commit(
        group,
        member_id=asked.request.member_id,
        epoch=asked.request.generation_id_or_member_epoch,
        partition=TopicIdPartition(found.topic_id, partition.partition_index),
    )


def _record(
    context: DecisionContext,
    asked: Committing,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    metadata: str,
) -> OffsetCommitted:
    found = find_topic(context, name=topic.name, topic_id=topic.topic_id, version=asked.version)
    assert isinstance(found, TopicImage), found
    epoch = partition.committed_leader_epoch
    retention_ms = asked.request.retention_time_ms
    expires = retention_ms != BROKER_DECIDES
    expiry_ms = min(max(context.now_ms + retention_ms, 0), TIMESTAMP_MS_MAX)
    value = OffsetValue(
        offset=partition.committed_offset,
        leader_epoch=None if epoch < 0 else epoch,
        metadata=metadata,
        commit_timestamp_ms=context.now_ms,
        expire_timestamp_ms=expiry_ms if expires else None,
        # The old version of the record that holds a time of expiry has no room for the id.
        topic_id=NO_TOPIC_ID if expires else found.topic_id,
    )
    return OffsetCommitted(
        group=asked.request.group_id,
        topic=found.name,
        partition=partition.partition_index,
        value=value,
    )


def _session(
    group: Group | None, context: DecisionContext, member_id: str
) -> tuple[SetDeadline, ...]:
    """A commit of a classic member shows that it lives."""
    if not isinstance(group, ClassicGroup) or group.state not in HELD_BY_COMMITS:
        return ()
    member = group.members.get(member_id)
    if member is None:
        return ()
    at_ms = context.monotonic_ms + member.session_timeout_ms
    return (SetDeadline(key=SessionEnds(group=group.group_id, member=member_id), at_ms=at_ms),)


def utf16_length(text: str) -> int:
    """The length that Java counts: a character beyond the first plane is two."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)
