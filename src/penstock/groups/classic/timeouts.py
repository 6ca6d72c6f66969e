"""What happens in a classic group when a deadline passes, and its deadlines after a failover.

Each decision removes its own deadline or sets it again: a deadline that stays due would repeat for
ever.
"""

from penstock.groups.changes import CancelDeadline
from penstock.groups.classic.changes import MemberIdForgotten
from penstock.groups.classic.draft import Draft
from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.classic.rebalance import (
    await_handshakes,
    complete_join,
    complete_join_if_ready,
    extend_initial_delay,
    prepare_rebalance,
)
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import GroupRecord
from penstock.groups.timers import JoinEnds, PendingMemberEnds, SessionEnds, SyncEnds
from penstock.machine.decision import Decision

Decided = Decision[GroupRecord, object]
ClassicTimer = SessionEnds | PendingMemberEnds | JoinEnds | SyncEnds


def decide_session_ended(
    group: ClassicGroup | None, context: DecisionContext, key: SessionEnds
) -> Decided:
    """A member with a parked request is not silent; its session starts with the reply."""
    member = None if group is None else group.members.get(key.member)
    if group is None or member is None:
        return _nothing(key)
    waits = member.join_ticket is not None or member.sync_ticket is not None
    if waits and not member.is_new:
        return _nothing(key)
    draft = Draft(group, context)
    draft.remove(key.member)
    if group.state is ClassicState.PREPARING:
        complete_join_if_ready(draft)
    else:
        prepare_rebalance(draft)
    return draft.decision_with(None)


def decide_pending_member_ended(
    group: ClassicGroup | None, context: DecisionContext, key: PendingMemberEnds
) -> Decided:
    if group is None or key.member not in group.pending:
        return _nothing(key)
    if group.state is not ClassicState.PREPARING:
        return Decision(
            reply=None,
            volatile=(
                MemberIdForgotten(group=group.group_id, member=key.member),
                CancelDeadline(key=key),
            ),
        )
    draft = Draft(group, context)
    draft.forget_pending(key.member)
    complete_join_if_ready(draft)
    return draft.decision_with(None)


def decide_join_ended(
    group: ClassicGroup | None, context: DecisionContext, key: JoinEnds
) -> Decided:
    """The generation begins with those that joined in time."""
    if group is None or group.state is not ClassicState.PREPARING:
        return _nothing(key)
    draft = Draft(group, context)
    if not extend_initial_delay(draft) and not await_handshakes(draft):
        draft.group.initial = None
        complete_join(draft)
    return draft.decision_with(None)


def decide_sync_ended(
    group: ClassicGroup | None, context: DecisionContext, key: SyncEnds
) -> Decided:
    """Removes members that joined the generation and did not send SyncGroup."""
    if group is None or not group.unsynced:
        return _nothing(key)
    draft = Draft(group, context)
    for member_id in group.members:
        if member_id in group.unsynced:
            draft.remove(member_id)
    prepare_rebalance(draft)
    return draft.decision_with(None)


def changes_after_load(group: ClassicGroup, context: DecisionContext) -> tuple[object, ...]:
    """Members found in the journal get a full session time-out.

    A group with more members than the settings now allow rebalances, so that each member can commit
    before some are refused.
    """
    draft = Draft(group, context)
    for member_id in group.members:
        draft.restart_session(member_id)
    if len(group.members) > context.settings.group_max_size:
        prepare_rebalance(draft)
    return draft.decision_with(None).volatile


def changes_after_end(group: ClassicGroup) -> tuple[CancelDeadline, ...]:
    """The deadlines that a group which ends, or becomes another kind of group, leaves behind."""
    name = group.group_id
    return (
        CancelDeadline(key=JoinEnds(group=name)),
        CancelDeadline(key=SyncEnds(group=name)),
        *(CancelDeadline(key=SessionEnds(group=name, member=id_)) for id_ in group.members),
        *(CancelDeadline(key=PendingMemberEnds(group=name, member=id_)) for id_ in group.pending),
    )


def _nothing(key: ClassicTimer) -> Decided:
    return Decision(reply=None, volatile=(CancelDeadline(key=key),))
