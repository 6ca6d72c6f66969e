"""Whether a request comes from a member, and of which generation: as Kafka checks it, in its order.

A group that does not exist is checked by the callers, since each answers it in its own way.
"""

from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.model.error import ErrorCode

NO_GENERATION = -1


def check_member(group: ClassicGroup, *, member_id: str, instance_id: str | None) -> ErrorCode:
    if instance_id is not None:
        known_id = group.static_members.get(instance_id)
        if known_id is None:
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
    """Without a generation it comes from a tool or a consumer that assigns to itself: then the
    group must be empty. Transactional commits may come without, and in any state.
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
    """Of a group with members, only one that tells which topics it reads can lose offsets."""
    if group.state is ClassicState.EMPTY or group.uses_consumer_protocol:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def check_group_delete(group: ClassicGroup) -> ErrorCode:
    if group.state is ClassicState.EMPTY:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP
