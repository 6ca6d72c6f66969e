"""OffsetFetch, for one group: its committed offsets of some partitions, or of all.

A partition without an offset, or a group that does not exist, is not an error: the offset is -1.
"""

from collections.abc import Iterable

from penstock.groups.decision_context import DecisionContext
from penstock.groups.group import Group, check_fetch
from penstock.groups.offsets.offsets import Offsets
from penstock.groups.offsets.topics import TOPIC_IDS_FROM, find_topic, is_of_topic
from penstock.groups.records import GroupRecord, OffsetValue
from penstock.groups.requests import Asked
from penstock.machine.decision import Decision
from penstock.metadata.image.topic import TopicImage
from penstock.model.error import ErrorCode
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_COMMIT = -1
NO_EPOCH = -1

Fetching = Asked[OffsetFetchRequestGroup]


def decide_fetch(
    offsets: Offsets, group: Group | None, context: DecisionContext, asked: Fetching
) -> Decision[GroupRecord, OffsetFetchResponseGroup]:
    request = asked.request
    code = ErrorCode.NONE
    if group is not None:
        code = check_fetch(group, member_id=request.member_id, epoch=request.member_epoch)
    if code is not ErrorCode.NONE:
        return Decision.refuse(OffsetFetchResponseGroup(group_id=request.group_id, error_code=code))
    if request.topics is None:
        topics = _all_topics(offsets, context, asked)
    else:
        topics = [_topic(offsets, context, asked, topic) for topic in request.topics]
    return Decision(reply=OffsetFetchResponseGroup(group_id=request.group_id, topics=topics))


def _topic(
    offsets: Offsets, context: DecisionContext, asked: Fetching, wanted: OffsetFetchRequestTopics
) -> OffsetFetchResponseTopics:
    found = find_topic(context, name=wanted.name, topic_id=wanted.topic_id, version=asked.version)
    by_id = asked.version >= TOPIC_IDS_FROM
    # A few bytes ask for kilobytes of metadata: not again and again.
    indexes = dict.fromkeys(wanted.partition_indexes)
    if by_id and isinstance(found, ErrorCode):
        partitions = [_partition(index, None, code=found) for index in indexes]
    else:
        # Offsets of a deleted topic are returned by its name for as long as they are kept.
        topic = found if isinstance(found, TopicImage) else None
        name = wanted.name if topic is None else topic.name
        committed = offsets.of_group(asked.request.group_id).get(name, {})
        partitions = [_partition(index, _current(committed.get(index), topic)) for index in indexes]
    return OffsetFetchResponseTopics(
        name=wanted.name, topic_id=wanted.topic_id, partitions=partitions
    )


def _all_topics(
    offsets: Offsets, context: DecisionContext, asked: Fetching
) -> list[OffsetFetchResponseTopics]:
    topics = []
    for name, committed in offsets.of_group(asked.request.group_id).items():
        topic = context.image.topics_by_name.get(name)
        if topic is None and asked.version >= TOPIC_IDS_FROM:
            continue  # what is gone has no id to go by
        told = OffsetFetchResponseTopics(
            name=name,
            partitions=list(_all_partitions(committed.items(), topic)),
        )
        if topic is not None:
            told.topic_id = topic.topic_id
        if told.partitions:
            topics.append(told)
    return topics


def _all_partitions(
    committed: Iterable[tuple[int, OffsetValue]], topic: TopicImage | None
) -> Iterable[OffsetFetchResponsePartitions]:
    for index, value in committed:
        if _current(value, topic) is not None:
            yield _partition(index, value)


def _current(value: OffsetValue | None, topic: TopicImage | None) -> OffsetValue | None:
    if value is None or topic is None or is_of_topic(value.topic_id, topic):
        return value
    return None


def _partition(
    index: int, value: OffsetValue | None, *, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    if value is None:
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_COMMIT,
            committed_leader_epoch=NO_EPOCH,
            metadata="",
            error_code=code,
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=NO_EPOCH if value.leader_epoch is None else value.leader_epoch,
        metadata=value.metadata,
    )
