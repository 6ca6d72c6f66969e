"""LeaveGroup: members leave by their ids, or an administrator removes them by instance id."""

from penstock.groups.classic.checks import check_member
from penstock.groups.classic.draft import Draft
from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.classic.rebalance import complete_join_if_ready, prepare_rebalance
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

MANY_MEMBERS_FROM = 3  # of the request's versions


def decide_leave(
    group: ClassicGroup | None, context: DecisionContext, asked: Asked[LeaveGroupRequest]
) -> Decision[GroupRecord, object]:
    if not asked.request.group_id:
        return Decision.refuse(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    leaving = leaving_members(asked)
    if group is None:
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return Decision.refuse(leave_reply(asked.version, leaving, codes))
    draft = Draft(group, context)
    codes = [_remove(draft, identity) for identity in leaving]
    reply = leave_reply(asked.version, leaving, codes)
    if ErrorCode.NONE not in codes:
        return Decision.refuse(reply)
    if draft.group.state is ClassicState.PREPARING:
        complete_join_if_ready(draft)
    elif len(draft.group.members) < len(group.members):
        prepare_rebalance(draft)
    return draft.decision_with(reply)


def leaving_members(asked: Asked[LeaveGroupRequest]) -> list[MemberIdentity]:
    """The members that leave, in the form of the versions that take several."""
    if asked.version >= MANY_MEMBERS_FROM:
        return asked.request.members
    return [MemberIdentity(member_id=asked.request.member_id)]


def leave_reply(
    version: int, leaving: list[MemberIdentity], codes: list[ErrorCode]
) -> LeaveGroupResponse:
    """One result per member; in versions for one member its code is that of the reply."""
    if version < MANY_MEMBERS_FROM:
        (code,) = codes
        return LeaveGroupResponse(error_code=code)
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=code,
            )
            for identity, code in zip(leaving, codes, strict=True)
        ]
    )


def _remove(draft: Draft, identity: MemberIdentity) -> ErrorCode:
    group = draft.group
    instance_id = identity.group_instance_id
    if not identity.member_id:
        member_id = None if instance_id is None else group.static_members.get(instance_id)
        if member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        draft.remove(member_id)
        return ErrorCode.NONE
    if identity.member_id in group.pending:
        draft.forget_pending(identity.member_id)
        return ErrorCode.NONE
    code = check_member(group, member_id=identity.member_id, instance_id=instance_id)
    if code is ErrorCode.NONE:
        draft.remove(identity.member_id)
    return code
