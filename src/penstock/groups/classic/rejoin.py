"""JoinGroup of known members: members that rejoin, and static members that restarted."""

from dataclasses import replace

from penstock.groups.classic.checks import check_member
from penstock.groups.classic.draft import Draft
from penstock.groups.classic.group import ClassicGroup, ClassicMember, ClassicState
from penstock.groups.classic.rebalance import rebalance_or_complete_join
from penstock.groups.classic.replies import join_refused, joined
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.wire.messages.join_group import JoinGroupRequest

Joining = Asked[JoinGroupRequest]
Decided = Decision[GroupRecord, object]

SKIP_ASSIGNMENT_FROM = 9  # of the request's versions


def rejoin(
    group: ClassicGroup, context: DecisionContext, asked: Joining, member: ClassicMember
) -> Decided:
    """`member` is the member as the request describes it.

    A member that changes nothing has most likely lost a reply: it gets the generation again. The
    leader of a stable group rejoins to request a new assignment.
    """
    member_id = member.member_id
    code = check_member(group, member_id=member_id, instance_id=member.instance_id)
    if code is not ErrorCode.NONE:
        return Decision.refuse(join_refused(code, member_id))
    known = group.members[member_id]
    if group.state is not ClassicState.PREPARING:
        wants_rebalance = group.state is ClassicState.STABLE and group.leader == member_id
        if known.protocols == member.protocols and not wants_rebalance:
            return Decision.refuse(joined(group, member_id))
    draft = Draft(group, context)
    _update(draft, member)
    draft.park_join(member_id, asked.ticket)
    rebalance_or_complete_join(draft)
    return draft.decision(asked.ticket)


def replace_static(draft: Draft, asked: Joining, old_id: str, member: ClassicMember) -> Decided:
    """A static member restarted: it keeps its assignment under the new member id.

    A stable group goes on as it is, unless another protocol would be chosen now.
    """
    group = draft.group
    old_leader = group.leader
    draft.rename(old_id, member.member_id)
    _update(draft, member)
    if group.state is ClassicState.STABLE and group.elected_protocol() == group.protocol_name:
        draft.store()
        if asked.version >= SKIP_ASSIGNMENT_FROM:
            is_leader = group.leader == member.member_id
            reply = joined(group, member.member_id, skip_assignment=is_leader)
        else:
            reply = joined(group, member.member_id, leader=old_leader)
        return draft.decision_with(reply)
    draft.park_join(member.member_id, asked.ticket)
    rebalance_or_complete_join(draft)
    return draft.decision(asked.ticket)


def _update(draft: Draft, member: ClassicMember) -> None:
    """What a member may change by joining again."""
    known = draft.group.members[member.member_id]
    draft.group.change(
        replace(
            known,
            protocols=member.protocols,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
        )
    )
