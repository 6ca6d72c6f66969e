"""The groups and offsets of one partition of `__consumer_offsets`: the machine that a host runs.

`apply` applies records of the journal, live and at replay; `apply_volatile` applies changes that
are not journalled. The journal is compacted, so the state must follow from the last record of each
key, in their order: replaying the whole journal and the compacted one gives the same state.

Invariants:
1. A group that has offsets, committed or pending, exists.
2. Each group, the offsets and the deadlines hold their own invariants.
3. The deletion of a group has a deadline for its next step until it is complete.
"""

from collections.abc import Iterable
from typing import assert_never

from penstock.groups.changes import CancelDeadline, SetDeadline
from penstock.groups.classic.changes import ClassicGroupBecame, MemberIdForgotten, MemberIdGiven
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.stored import group_of
from penstock.groups.consumer.changes import MetadataSeen
from penstock.groups.consumer.group import ConsumerGroup, ConsumerRecord
from penstock.groups.decision_context import DecisionContext
from penstock.groups.group import Group, changes_at_load, member_count, simple_group
from penstock.groups.offsets.deletion import DeletionBegan, DeletionEnded
from penstock.groups.offsets.expiry import ExpiryReached
from penstock.groups.offsets.offsets import Offsets
from penstock.groups.offsets.pending import PendingOffsets
from penstock.groups.records import (
    ClassicGroupStored,
    ConsumerCurrentStored,
    ConsumerGroupStored,
    ConsumerMemberStored,
    ConsumerRegexStored,
    ConsumerTargetMemberStored,
    ConsumerTargetStored,
    GroupRecord,
    OffsetCommitted,
    TransactionalOffset,
    TransactionEnded,
)
from penstock.groups.timers import DeletionGoesOn, OffsetsExpire, TimerKey
from penstock.machine.deadlines import Deadlines


class GroupShard:
    """See the module; a `Machine` to its host."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.pending = PendingOffsets()
        self.deadlines: Deadlines[TimerKey] = Deadlines()
        self.expiry_left: tuple[str, ...] = ()  # groups that a round of expiry has still to see
        self.deletions: dict[str, int] = {}  # groups that are being deleted, and for which ticket

    def member_count(self) -> int:
        return sum(map(member_count, self.groups.values()))

    def apply(self, record: GroupRecord) -> None:
        match record:
            case OffsetCommitted():
                self._apply_offset(record)
            case TransactionalOffset():
                self._begin_if_new(record.group)
                self.pending.put(record)
            case TransactionEnded():
                self._apply_end(record)
            case ClassicGroupStored():
                self._apply_classic(record)
            case (
                ConsumerGroupStored()
                | ConsumerMemberStored()
                | ConsumerTargetStored()
                | ConsumerTargetMemberStored()
                | ConsumerCurrentStored()
                | ConsumerRegexStored()
            ):
                self._apply_consumer(record)
            case _:
                assert_never(record)

    def apply_volatile(self, change: object) -> None:
        match change:
            case SetDeadline():
                self.deadlines.set(change.key, change.at_ms)
            case CancelDeadline():
                self.deadlines.cancel(change.key)
            case ClassicGroupBecame():
                self.groups[change.group.group_id] = change.group
            case MemberIdGiven():
                self._classic(change.group).pending[change.member] = None
            case MemberIdForgotten():
                del self._classic(change.group).pending[change.member]
            case MetadataSeen():
                found = self.groups.get(change.group)
                if isinstance(found, ConsumerGroup):
                    found.seen = change.image
            case ExpiryReached():
                self.expiry_left = change.left
            case DeletionBegan():
                self.deletions[change.group] = change.ticket
            case DeletionEnded():
                del self.deletions[change.group]
            case _:
                raise AssertionError(f"not a change of a shard: {change!r}")

    def loaded(self, context: DecisionContext, groups: Iterable[Group]) -> None:
        """The journal has been replayed: all members of these groups get a full session time-out.
        It is called for all groups, some at a time, before anything is decided.
        """
        for group in groups:
            for change in changes_at_load(group, context):
                self.apply_volatile(change)
        interval_ms = context.settings.offsets_retention_check_interval_ms
        self.deadlines.set(OffsetsExpire(), context.monotonic_ms + interval_ms)

    def check(self) -> None:
        for group in (*self.offsets, *self.pending):
            assert group in self.groups, group  # invariant 1
        for name, found in self.groups.items():
            assert found.group_id == name
            found.check()  # invariant 2
        self.offsets.check()  # invariant 2
        self.pending.check()  # invariant 2
        self.deadlines.check()  # invariant 2
        for group in self.deletions:
            assert self.deadlines.at(DeletionGoesOn(group=group)) is not None, group  # invariant 3

    def _apply_end(self, record: TransactionEnded) -> None:
        if not record.committed:
            self.pending.abort(record.producer_id)
            return
        for committed in tuple(self.pending.commit(record.producer_id)):
            self._put_offset(committed)

    def _apply_offset(self, record: OffsetCommitted) -> None:
        self.pending.overwrite(record.group, record.topic, record.partition)
        self._put_offset(record)

    def _put_offset(self, record: OffsetCommitted) -> None:
        if record.value is None:
            self.offsets.remove(record.group, record.topic, record.partition)
            return
        self._begin_if_new(record.group)
        self.offsets.put(record.group, record.topic, record.partition, record.value)

    def _apply_classic(self, record: ClassicGroupStored) -> None:
        if record.value is not None:
            self.groups[record.group] = group_of(record.group, record.value)
        elif isinstance(self.groups.get(record.group), ClassicGroup):
            self._remove(record.group)

    def _apply_consumer(self, record: ConsumerRecord) -> None:
        """A tombstone makes no group; that of the group itself comes last and ends it."""
        group = self.groups.get(record.group)
        if isinstance(group, ConsumerGroup):
            group.apply(record)
            if isinstance(record, ConsumerGroupStored) and record.value is None:
                self._remove(record.group)
        elif record.value is not None:
            self.groups[record.group] = begun = ConsumerGroup(group_id=record.group)
            begun.apply(record)

    def _classic(self, name: str) -> ClassicGroup:
        group = self.groups[name]
        assert isinstance(group, ClassicGroup), name
        return group

    def _begin_if_new(self, group: str) -> None:
        """A client that commits offsets without being a member has a group too."""
        if group not in self.groups:
            self.groups[group] = simple_group(group)

    def _remove(self, group: str) -> None:
        if group in self.offsets or group in self.pending:
            self.groups[group] = simple_group(group)
        else:
            del self.groups[group]
