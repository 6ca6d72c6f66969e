"""Members leave or are removed: the others take over their partitions, in a new epoch.

A member of the consumer protocol leaves with its last heartbeat, one of the classic protocol with
LeaveGroup. An administrator removes members of either protocol with LeaveGroup.
"""

from collections.abc import Collection
from dataclasses import replace

from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.leave import leave_reply, leaving_members
from penstock.groups.consumer.advance import drop_unused_regexes, raise_epoch, remove_member
from penstock.groups.consumer.checks import known_member
from penstock.groups.consumer.conversion import downgrade, may_downgrade_without
from penstock.groups.consumer.draft import Decided, Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import NOTHING, STATIC_LEAVING_EPOCH, ConsumerMember
from penstock.groups.consumer.stored import current_stored
from penstock.groups.consumer.target import note_empty
from penstock.groups.decision_context import DecisionContext
from penstock.groups.requests import Asked
from penstock.groups.timers import RevocationEnds
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity


def decide_leave(
    group: ClassicGroup | ConsumerGroup | None,
    context: DecisionContext,
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
        return _step_out(Draft(group, context), member, reply)
    return put_out(group, context, {member.member_id}, reply)


def decide_leave_group(
    group: ConsumerGroup, context: DecisionContext, asked: Asked[LeaveGroupRequest]
) -> Decided:
    """All members that the request names leave in one epoch. A member that is named twice is found
    both times, as in Apache Kafka.
    """
    identities = leaving_members(asked)
    leaving: dict[str, None] = {}  # member ids, in the order of the request
    codes: list[ErrorCode] = []
    for identity in identities:
        try:
            leaving[_named_member(group, identity).member_id] = None
        except RequestError as refusal:
            codes.append(refusal.code)
        else:
            codes.append(ErrorCode.NONE)
    reply = leave_reply(asked.version, identities, codes)
    if not leaving:
        return Decision.refuse(reply)
    return put_out(group, context, leaving.keys(), reply)


def put_out(
    group: ConsumerGroup, context: DecisionContext, leaving: Collection[str], reply: object
) -> Decided:
    """Removes members. When the last member of the consumer protocol has left, the group becomes a
    classic one again, where that is allowed.
    """
    if may_downgrade_without(group, context, leaving):
        return downgrade(group, context, without=leaving, reply=reply)
    draft = Draft(group, context)
    for member_id in leaving:
        remove_member(draft, member_id)
    drop_unused_regexes(draft)
    raise_epoch(draft)
    if not draft.group.members:
        note_empty(draft)
    return draft.decision(reply)


def _named_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """The member that LeaveGroup names: by its id, by its instance alone, or by both."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id and instance_id is not None:
        named = group.static_member(instance_id)
        member_id = "" if named is None else named.member_id
    return known_member(group, member_id=member_id, instance_id=instance_id)


def _step_out(draft: Draft, member: ConsumerMember, reply: object) -> Decided:
    """A static member keeps its place until its session ends; it has given up nothing but what it
    was told to.
    """
    away = replace(member, epoch=STATIC_LEAVING_EPOCH, revoking=NOTHING)
    draft.write(current_stored(draft.group.group_id, away))
    draft.cancel(RevocationEnds(group=draft.group.group_id, member=member.member_id))
    return draft.decision(reply)
