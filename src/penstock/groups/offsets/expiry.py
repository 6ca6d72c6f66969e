"""Expiry of unused offsets, and of groups that have none left.

An offset with a pending transactional commit does not expire before that transaction has ended. One
whose topic was deleted expires at once, whoever reads the name: a coordinator that ends before it
has forgotten such offsets (`delete`) leaves them in the journal. The next one knows from the ids:
its image is younger than that of whoever led before it, so what it does not know is gone. Apache
Kafka keeps them until their time is over.

A round goes over all groups of a shard, some at a time, so that no step takes long. Between two
steps the shard stores which groups are left.
"""

from collections.abc import Mapping

from penstock.groups.changes import SetDeadline
from penstock.groups.decision_context import DecisionContext
from penstock.groups.group import (
    Group,
    Readers,
    changes_at_end,
    check_group_delete,
    expiry_start_ms,
    readers_of,
    tombstones,
)
from penstock.groups.offsets.offsets import Offsets
from penstock.groups.offsets.pending import PendingOffsets
from penstock.groups.records import GroupRecord, OffsetCommitted, OffsetValue
from penstock.groups.timers import OffsetsExpire
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import EXPIRY_ENTRIES_PER_STEP

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReached:
    """A volatile change: the groups that this round has still to check."""

    left: tuple[str, ...]


def decide_expiry(
    groups: Mapping[str, Group],
    offsets: Offsets,
    pending: PendingOffsets,
    left: tuple[str, ...],
    context: DecisionContext,
) -> Decision[GroupRecord, None]:
    """One step; `left` is empty when a new round begins."""
    to_see = left or tuple(groups)
    records: list[GroupRecord] = []
    changes: list[object] = []
    groups_seen = entries_seen = 0
    while groups_seen < len(to_see) and entries_seen < EXPIRY_ENTRIES_PER_STEP:
        group = groups.get(to_see[groups_seen])
        groups_seen += 1
        entries_seen += 1
        if group is None:
            continue
        offsets_seen, is_empty = _expired(group, offsets, pending, context, records)
        entries_seen += offsets_seen
        if (
            is_empty
            and group.group_id not in pending
            and check_group_delete(group) is ErrorCode.NONE
        ):
            records.extend(tombstones(group))
            changes.extend(changes_at_end(group))
    rest = to_see[groups_seen:]
    wait_ms = 0 if rest else context.settings.offsets_retention_check_interval_ms
    return Decision(
        reply=None,
        records=tuple(records),
        volatile=(
            *changes,
            ExpiryReached(left=rest),
            SetDeadline(key=OffsetsExpire(), at_ms=context.monotonic_ms + wait_ms),
        ),
    )


def _expired(
    group: Group,
    offsets: Offsets,
    pending: PendingOffsets,
    context: DecisionContext,
    records: list[GroupRecord],
) -> tuple[int, bool]:
    """Adds the tombstones of what has expired; how much was looked at, and whether none is left.

    What is more than a step's worth of one group is for the next round.
    """
    committed = offsets.of_group(group.group_id)
    if not committed:
        return 0, True
    readers = readers_of(group)
    seen, is_empty = len(group.members), True
    for topic, partitions in committed.items():
        is_read = readers.may_read(topic)
        for partition, value in partitions.items():
            seen += 1
            full = len(records) >= EXPIRY_ENTRIES_PER_STEP
            is_over = _is_of_deleted_topic(value, context) or (
                not is_read and _has_expired(group, readers, value, context)
            )
            if full or not is_over or pending.is_pending(group.group_id, topic, partition):
                is_empty = False
            else:
                records.append(
                    OffsetCommitted(
                        group=group.group_id, topic=topic, partition=partition, value=None
                    )
                )
    return seen, is_empty


def _is_of_deleted_topic(value: OffsetValue, context: DecisionContext) -> bool:
    topic_id = TopicId(value.topic_id)
    return topic_id != NO_TOPIC_ID and topic_id not in context.image.topics_by_id


def _has_expired(
    group: Group, readers: Readers, value: OffsetValue, context: DecisionContext
) -> bool:
    start_ms = expiry_start_ms(group, readers, value)
    if start_ms is None:
        return False
    if value.expire_timestamp_ms is not None:
        return context.now_ms >= value.expire_timestamp_ms
    retention_ms = context.settings.offsets_retention_minutes * MINUTE_MS
    return context.now_ms - start_ms >= retention_ms
