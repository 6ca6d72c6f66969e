"""A member leaves, or is put out: the others share what it owned, in another epoch."""

from dataclasses import replace

from penstock.groups.asking import Asked
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer.advance import drop_unused_regexes, raise_epoch, remove_member
from penstock.groups.consumer.checks import known_member
from penstock.groups.consumer.conversion import downgrade, may_downgrade_without
from penstock.groups.consumer.draft import Decided, Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import NOTHING, STATIC_LEAVING_EPOCH, ConsumerMember
from penstock.groups.consumer.stored import current_stored
from penstock.groups.situation import Situation
from penstock.groups.timers import RevocationEnds
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def decide_leave(
    group: ClassicGroup | ConsumerGroup | None,
    situation: Situation,
    asked: Asked[ConsumerGroupHeartbeatRequest],
) -> Decided:
    request = asked.request
    if not isinstance(group, ConsumerGroup):
        message = f"Group {request.group_id} not found."
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    member = known_member(group, member_id=request.member_id, instance_id=request.instance_id)
    reply = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=request.member_epoch
    )
    if request.member_epoch == STATIC_LEAVING_EPOCH:
        return _step_out(Draft(group, situation), member, reply)
    return put_out(group, situation, member, reply)


def put_out(
    group: ConsumerGroup, situation: Situation, member: ConsumerMember, reply: object
) -> Decided:
    """Removes a member for good. With the last one that speaks the consumer protocol gone, the
    group is a classic one again, where that is allowed.
    """
    if may_downgrade_without(group, situation, member.member_id):
        return downgrade(group, situation, without=member.member_id, reply=reply)
    draft = Draft(group, situation)
    remove_member(draft, member.member_id)
    drop_unused_regexes(draft)
    raise_epoch(draft)
    return draft.decision(reply)


def _step_out(draft: Draft, member: ConsumerMember, reply: object) -> Decided:
    """A static member keeps its place until its session ends; it has given up nothing but what it
    was told to.
    """
    away = replace(member, epoch=STATIC_LEAVING_EPOCH, revoking=NOTHING)
    draft.write(current_stored(draft.group.group_id, away))
    draft.cancel(RevocationEnds(group=draft.group.group_id, member=member.member_id))
    return draft.decision(reply)
