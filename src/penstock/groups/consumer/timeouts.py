"""What happens in a consumer group when a deadline passes, and its deadlines after a failover.

Each decision removes its own deadline: a deadline that stays due would repeat for ever.
"""

from dataclasses import replace

from penstock.groups.changes import CancelDeadline
from penstock.groups.consumer.draft import Decided, Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.leave import put_out
from penstock.groups.decision_context import DecisionContext
from penstock.groups.timers import MemberJoinEnds, MemberSyncEnds, RevocationEnds, SessionEnds
from penstock.machine.decision import Decision

ConsumerTimer = SessionEnds | RevocationEnds | MemberJoinEnds | MemberSyncEnds


def decide_time_up(group: ConsumerGroup, context: DecisionContext, key: ConsumerTimer) -> Decided:
    """Removes a member whose session or rebalance time-out has passed."""
    member = group.members.get(key.member)
    if member is None:
        return _nothing(key)
    if isinstance(key, RevocationEnds) and not member.revoking:
        return _nothing(key)
    decision = put_out(group, context, {member.member_id}, reply=None)
    return replace(decision, volatile=(CancelDeadline(key=key), *decision.volatile))


def changes_after_load(group: ConsumerGroup, context: DecisionContext) -> tuple[object, ...]:
    """Members found in the journal get a full session time-out and a full rebalance time-out."""
    draft = Draft(group, context)
    for member_id, member in group.members.items():
        draft.restart_session(member)
        if member.revoking and not member.uses_classic_protocol:
            key = RevocationEnds(group=group.group_id, member=member_id)
            draft.wait(key, for_ms=member.rebalance_timeout_ms)
    return draft.decision(None).volatile


def _nothing(key: ConsumerTimer) -> Decided:
    return Decision(reply=None, volatile=(CancelDeadline(key=key),))
