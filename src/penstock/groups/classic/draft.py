"""A classic group while one decision changes it: the copy, the answers and the deadlines.

Rules call its commands in order; `decision` returns the result. Replies to parked requests become
effects, so they wait for the records of the decision; the reply to the request that is being
decided is the reply of the decision.
"""

from dataclasses import replace

from penstock.groups.changes import CancelDeadline, SetDeadline
from penstock.groups.classic.changes import ClassicGroupBecame
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.replies import join_refused, sync_refused
from penstock.groups.classic.stored import has_static_members, value_of, with_present_ids
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import ClassicGroupStored, GroupRecord
from penstock.groups.requests import PARKED, Deliver
from penstock.groups.timers import PendingMemberEnds, SessionEnds, TimerKey
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.wire.messages.coordinator_records.group_metadata import GroupMetadataValue
from penstock.wire.messages.join_group import JoinGroupResponse
from penstock.wire.messages.sync_group import SyncGroupResponse


class Draft:
    """`group` is a copy that may be changed; records, effects and deadlines are collected."""

    def __init__(self, group: ClassicGroup, context: DecisionContext) -> None:
        self.group = group.copy()
        self.context = context
        self._records: list[GroupRecord] = []
        self._deadlines: dict[TimerKey, SetDeadline | CancelDeadline] = {}
        self._answers: dict[int, object] = {}

    def store(self) -> None:
        """Writes the group, as it is now, to the journal."""
        self._store(value_of(self.group))

    def store_present_ids(self) -> None:
        """Writes the last assigned generation again, if its static members have other ids now. A
        coordinator that finds it must not fence them by those that they had before.
        """
        stored = self.group.stored
        if stored is not None:
            present = with_present_ids(stored, self.group.static_members)
            if present != stored:
                self._store(present)

    def _store(self, value: GroupMetadataValue) -> None:
        assert not self._records, "one decision stores a group once"
        self._records.append(ClassicGroupStored(group=self.group.group_id, value=value))
        self.group.stored = value if has_static_members(value) else None

    def wait(self, key: TimerKey, *, for_ms: int) -> None:
        at_ms = self.context.monotonic_ms + max(for_ms, 0)
        self._deadlines[key] = SetDeadline(key=key, at_ms=at_ms)

    def cancel(self, key: TimerKey) -> None:
        self._deadlines[key] = CancelDeadline(key=key)

    def restart_session(self, member_id: str) -> None:
        """Starts the member's session time-out again."""
        member = self.group.members[member_id]
        key = SessionEnds(group=self.group.group_id, member=member_id)
        self.wait(key, for_ms=member.session_timeout_ms)

    def answer_join(self, member_id: str, reply: JoinGroupResponse) -> None:
        """Answers the member's join, if one is parked."""
        member = self.group.members[member_id]
        if member.join_ticket is not None:
            self._answers[member.join_ticket] = reply
            self.group.change(replace(member, join_ticket=None))

    def answer_sync(self, member_id: str, reply: SyncGroupResponse) -> None:
        """Answers the member's sync, if one is parked."""
        member = self.group.members[member_id]
        if member.sync_ticket is not None:
            self._answers[member.sync_ticket] = reply
            self.restart_session(member_id)
            self.group.change(replace(member, sync_ticket=None))

    def park_join(self, member_id: str, ticket: int) -> None:
        """If a join of the member is parked already, its client has given it up."""
        self.answer_join(member_id, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
        self.group.change(replace(self.group.members[member_id], join_ticket=ticket))

    def park_sync(self, member_id: str, ticket: int) -> None:
        """If a sync of the member is parked already, its client has given it up."""
        self.answer_sync(member_id, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        self.group.change(replace(self.group.members[member_id], sync_ticket=ticket))

    def remove(self, member_id: str) -> None:
        """A member with a parked request gets an error, so that it joins again if it is still
        running.
        """
        self.answer_join(member_id, join_refused(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self.answer_sync(member_id, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        self.group.remove(member_id)
        self.cancel(SessionEnds(group=self.group.group_id, member=member_id))

    def rename(self, old_id: str, new_id: str) -> None:
        """A static member came back with another member id: requests with the old id are fenced."""
        self.answer_join(old_id, join_refused(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self.answer_sync(old_id, sync_refused(ErrorCode.FENCED_INSTANCE_ID))
        member = replace(self.group.members[old_id], member_id=new_id, is_new=False)
        self.group.rename(old_id, member)
        self.cancel(SessionEnds(group=self.group.group_id, member=old_id))
        self.restart_session(new_id)

    def forget_pending(self, member_id: str) -> None:
        self.group.pending.pop(member_id, None)
        self.cancel(PendingMemberEnds(group=self.group.group_id, member=member_id))

    def decision(self, ticket: int) -> Decision[GroupRecord, object]:
        """The decision about the request of this ticket: with its reply if there is one, else
        parked.
        """
        reply = self._answers.pop(ticket, PARKED)
        return self.decision_with(reply)

    def decision_with(self, reply: object) -> Decision[GroupRecord, object]:
        return Decision(
            reply=reply,
            records=tuple(self._records),
            volatile=(ClassicGroupBecame(group=self.group), *self._deadlines.values()),
            effects=tuple(
                Deliver(ticket=ticket, reply=answer) for ticket, answer in self._answers.items()
            ),
        )
