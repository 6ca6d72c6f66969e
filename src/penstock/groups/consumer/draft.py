"""A consumer group while one decision changes it: a copy that follows the records as they are
written, and the deadlines.

Rules write records and read the group with these applied; `decision` returns the result. The group
is copied at the first record, so a heartbeat without changes costs no copy.
"""

from penstock.groups.changes import CancelDeadline, SetDeadline
from penstock.groups.consumer.changes import MetadataSeen
from penstock.groups.consumer.group import ConsumerGroup, ConsumerRecord
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import GroupRecord
from penstock.groups.timers import (
    MemberJoinEnds,
    MemberSyncEnds,
    RevocationEnds,
    SessionEnds,
    TimerKey,
)
from penstock.machine.decision import Decision

Decided = Decision[GroupRecord, object]


class Draft:
    """`group` is the group with the records so far applied; callers do not change it."""

    def __init__(self, group: ConsumerGroup, context: DecisionContext) -> None:
        self.group = group
        self.context = context
        self._is_copied = False
        self._records: list[GroupRecord] = []
        self._deadlines: dict[TimerKey, SetDeadline | CancelDeadline] = {}
        self._seen: MetadataSeen | None = None
        self._effects: list[object] = []

    def write(self, record: ConsumerRecord) -> None:
        assert record.group == self.group.group_id
        if not self._is_copied:
            self.group = self.group.copy()
            self._is_copied = True
        self.group.apply(record)
        self._records.append(record)

    def replaces(
        self, records: tuple[GroupRecord, ...], changes: tuple[CancelDeadline, ...]
    ) -> None:
        """These records end a group of another kind, which this one replaces."""
        assert not self._records, "the former group ends first"
        self._records += records
        self._deadlines.update({change.key: change for change in changes})

    def wait(self, key: TimerKey, *, for_ms: int) -> None:
        at_ms = self.context.monotonic_ms + max(for_ms, 0)
        self._deadlines[key] = SetDeadline(key=key, at_ms=at_ms)

    def cancel(self, key: TimerKey) -> None:
        self._deadlines[key] = CancelDeadline(key=key)

    def restart_session(self, member: ConsumerMember) -> None:
        """Starts the member's session time-out again."""
        key = SessionEnds(group=self.group.group_id, member=member.member_id)
        settings = self.context.settings_of(self.group.group_id)
        timeout_ms = (
            settings.group_consumer_session_timeout_ms
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self.wait(key, for_ms=timeout_ms)

    def cancel_all(self, member_id: str) -> None:
        """Removes all deadlines of a member that has left."""
        group = self.group.group_id
        self.cancel(SessionEnds(group=group, member=member_id))
        self.cancel(RevocationEnds(group=group, member=member_id))
        self.cancel(MemberJoinEnds(group=group, member=member_id))
        self.cancel(MemberSyncEnds(group=group, member=member_id))

    def metadata_seen(self) -> None:
        self._seen = MetadataSeen(group=self.group.group_id, image=self.context.image)

    def deliver(self, effect: object) -> None:
        self._effects.append(effect)

    def decision(self, reply: object) -> Decided:
        seen = () if self._seen is None else (self._seen,)
        return Decision(
            reply=reply,
            records=tuple(self._records),
            volatile=(*seen, *self._deadlines.values()),
            effects=tuple(self._effects),
        )
