"""Heartbeat: restarts the member's session, and tells the member of a rebalance."""

from penstock.groups.changes import SetDeadline
from penstock.groups.classic.checks import check_generation
from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked
from penstock.groups.timers import SessionEnds
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def decide_heartbeat(
    group: ClassicGroup | None, context: DecisionContext, asked: Asked[HeartbeatRequest]
) -> Decision[GroupRecord, object]:
    request = asked.request
    if not request.group_id:
        return Decision.refuse(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    if group is None:
        return Decision.refuse(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    code = check_generation(
        group,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    if code is not ErrorCode.NONE:
        return Decision.refuse(HeartbeatResponse(error_code=code))
    if group.state is ClassicState.PREPARING:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    member = group.members[request.member_id]
    session = SetDeadline(
        key=SessionEnds(group=group.group_id, member=member.member_id),
        at_ms=context.monotonic_ms + member.session_timeout_ms,
    )
    return Decision(reply=HeartbeatResponse(error_code=code), volatile=(session,))
