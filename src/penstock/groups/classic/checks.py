"""Checks of the member and generation of a request: those of Kafka, in the same order, but for one.

A static member without an id is told that it is unknown, not that it is fenced. librdkafka sends
heartbeats without an id between the loss of its membership and its next join. The coordinator that
gets them may know the member still, if the one that removed it failed before that was stored: the
client would give up for ever, though nobody has taken its place.

Callers check whether the group exists, since each of them replies differently.
"""

from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.model.error import ErrorCode

NO_GENERATION = -1


def check_member(group: ClassicGroup, *, member_id: str, instance_id: str | None) -> ErrorCode:
    if instance_id is not None:
        known_id = group.static_members.get(instance_id)
        if known_id is None or not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def check_generation(
    group: ClassicGroup, *, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    code = check_member(group, member_id=member_id, instance_id=instance_id)
    if code is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return code


def check_offset_commit(
    group: ClassicGroup,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
    transactional: bool,
) -> ErrorCode:
    """A request without a generation comes from a tool or from a consumer with manual assignment:
    then the group must be empty. Transactional commits may have no generation, in any state of the
    group.
    """
    if generation < 0 and group.state is ClassicState.EMPTY:
        return ErrorCode.NONE
    if generation >= 0 or member_id or instance_id is not None:
        code = check_generation(
            group, member_id=member_id, instance_id=instance_id, generation=generation
        )
        if code is not ErrorCode.NONE:
            return code
    elif not transactional and group.state is not ClassicState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and group.state is ClassicState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_offset_delete(group: ClassicGroup) -> ErrorCode:
    """Offsets of a group with members can be deleted only if it is known which topics the members
    read.
    """
    if group.state is ClassicState.EMPTY or group.uses_consumer_protocol:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def check_group_delete(group: ClassicGroup) -> ErrorCode:
    if group.state is ClassicState.EMPTY:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP
