"""Deletion of offsets: by OffsetDelete, with their group, or with their topic.

One decision is one batch, so very many offsets are deleted in several steps. For a topic, the reply
`MORE` asks for the next step; for a group, a deadline triggers it (`deletion`).

Pending offsets of a transaction are deleted too: its marker must not restore what was deleted
before it.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice

from penstock.groups.changes import CancelDeadline, SetDeadline
from penstock.groups.decision_context import DecisionContext
from penstock.groups.group import (
    Group,
    Readers,
    changes_at_end,
    check_group_delete,
    check_offset_delete,
    readers_of,
    tombstones,
)
from penstock.groups.offsets.deletion import LATER, DeletionBegan, DeletionEnded
from penstock.groups.offsets.offsets import Offsets
from penstock.groups.offsets.pending import PendingOffsets
from penstock.groups.records import GroupRecord, OffsetCommitted, OffsetValue
from penstock.groups.requests import PARKED, Asked, Deliver
from penstock.groups.timers import DeletionGoesOn
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.delete_groups import DeletableGroupResult
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

OFFSETS_PER_STEP = DECISION_RECORDS_MAX // 2  # leaves room for the records of the group itself


class Progress(Enum):
    DONE = "nothing is left to delete"
    MORE = "ask again for what is left"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """One group of a DeleteGroups."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """Topics were deleted: their offsets are useless."""

    ids_by_name: Mapping[str, frozenset[bytes]]  # a topic may have been made and deleted again

    def also(self, other: "ForgetTopics") -> "ForgetTopics":
        """Both in one."""
        ids_by_name = dict(self.ids_by_name)
        for name, topic_ids in other.ids_by_name.items():
            ids_by_name[name] = ids_by_name.get(name, frozenset()) | topic_ids
        return ForgetTopics(ids_by_name=ids_by_name)


def decide_delete_offsets(
    offsets: Offsets,
    pending: PendingOffsets,
    group: Group | None,
    context: DecisionContext,
    asked: Asked[OffsetDeleteRequest],
) -> Decision[GroupRecord, OffsetDeleteResponse]:
    request = asked.request
    refused = ErrorCode.GROUP_ID_NOT_FOUND if group is None else check_offset_delete(group)
    if not request.group_id:
        refused = ErrorCode.INVALID_GROUP_ID
    if sum(len(topic.partitions) for topic in request.topics) > DECISION_RECORDS_MAX:
        refused = ErrorCode.UNKNOWN_SERVER_ERROR
    if group is None or refused is not ErrorCode.NONE:
        return Decision.refuse(OffsetDeleteResponse(error_code=refused))
    records: dict[tuple[str, int], GroupRecord] = {}
    topics = []
    readers = readers_of(group)
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            code = _check_partition(readers, context, topic, index)
            place = (request.group_id, topic.name, index)
            is_there = offsets.find(*place) is not None or pending.is_pending(*place)
            if code is ErrorCode.NONE and is_there:
                records[topic.name, index] = _tombstone(request.group_id, topic.name, index)
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        if partitions:  # a topic without partitions is left out
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return Decision(reply=OffsetDeleteResponse(topics=topics), records=tuple(records.values()))


def decide_delete_group(
    offsets: Offsets,
    pending: PendingOffsets,
    group: Group | None,
    context: DecisionContext,
    asked: Asked[DeleteGroup],
    *,
    under_way: bool,
) -> Decision[GroupRecord, object]:
    name = asked.request.group
    code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else check_group_delete(group)
    if under_way:
        code = LATER
    reply = DeletableGroupResult(group_id=name, error_code=code)
    if group is None or code is not ErrorCode.NONE:
        return Decision.refuse(reply)
    first = tuple(islice(_all_tombstones(offsets, pending, name), OFFSETS_PER_STEP + 1))
    if len(first) <= OFFSETS_PER_STEP:
        return Decision(
            reply=reply, records=(*first, *tombstones(group)), volatile=changes_at_end(group)
        )
    return Decision(
        reply=PARKED,
        records=first,
        volatile=(DeletionBegan(group=name, ticket=asked.ticket), _soon(name, context)),
    )


def decide_deletion_goes_on(
    offsets: Offsets,
    pending: PendingOffsets,
    group: Group | None,
    context: DecisionContext,
    key: DeletionGoesOn,
    *,
    ticket: int,
) -> Decision[GroupRecord, object]:
    name = key.group
    first = tuple(islice(_all_tombstones(offsets, pending, name), OFFSETS_PER_STEP + 1))
    if len(first) > OFFSETS_PER_STEP:
        return Decision(reply=None, records=first, volatile=(_soon(name, context),))
    rest = () if group is None else tombstones(group)  # offsets that expired took it with them
    changes = () if group is None else changes_at_end(group)
    return Decision(
        reply=None,
        records=(*first, *rest),
        volatile=(DeletionEnded(group=name), CancelDeadline(key=key), *changes),
        effects=(Deliver(ticket=ticket, reply=DeletableGroupResult(group_id=name)),),
    )


def decide_forget_topics(
    offsets: Offsets, pending: PendingOffsets, asked: ForgetTopics
) -> Decision[GroupRecord, Progress]:
    first = tuple(islice(_of_topics(offsets, pending, asked), OFFSETS_PER_STEP + 1))
    more = len(first) > OFFSETS_PER_STEP
    return Decision(reply=Progress.MORE if more else Progress.DONE, records=first)


def _all_tombstones(offsets: Offsets, pending: PendingOffsets, group: str) -> Iterator[GroupRecord]:
    for topic, partitions in offsets.of_group(group).items():
        for partition in partitions:
            yield _tombstone(group, topic, partition)
    for topic, partition in pending.of_group(group):
        if offsets.find(group, topic, partition) is None:
            yield _tombstone(group, topic, partition)


def _of_topics(
    offsets: Offsets, pending: PendingOffsets, asked: ForgetTopics
) -> Iterable[GroupRecord]:
    gone = asked.ids_by_name
    for group in offsets:
        committed = offsets.of_group(group)
        fewer: Iterable[str] = gone if len(gone) <= len(committed) else committed
        for topic in fewer:
            if topic not in gone or topic not in committed:
                continue
            for partition, value in committed[topic].items():
                if _is_of(value, gone[topic]):
                    yield _tombstone(group, topic, partition)
    for group in pending:
        for topic, partition in pending.of_group(group):
            if topic not in gone or offsets.find(group, topic, partition) is not None:
                continue
            values = pending.values_of(group, topic, partition)
            if all(_is_of(value, gone[topic]) for value in values):
                yield _tombstone(group, topic, partition)


def _is_of(value: OffsetValue, topic_ids: Container[bytes]) -> bool:
    return value.topic_id == NO_TOPIC_ID or value.topic_id in topic_ids


def _check_partition(
    readers: Readers, context: DecisionContext, topic: OffsetDeleteRequestTopic, index: int
) -> ErrorCode:
    found = context.image.topics_by_name.get(topic.name)
    if found is None or not 0 <= index < len(found.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if readers.may_read(topic.name):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return ErrorCode.NONE


def _soon(group: str, context: DecisionContext) -> SetDeadline:
    """Whatever else is due in the shard comes between two steps."""
    return SetDeadline(key=DeletionGoesOn(group=group), at_ms=context.monotonic_ms + 1)


def _tombstone(group: str, topic: str, partition: int) -> OffsetCommitted:
    return OffsetCommitted(group=group, topic=topic, partition=partition, value=None)
