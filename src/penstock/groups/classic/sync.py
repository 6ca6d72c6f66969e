"""SyncGroup: the leader sends the assignment, and each member gets its part in the reply."""

from dataclasses import replace

from penstock.groups.classic.checks import check_generation
from penstock.groups.classic.draft import Draft
from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.classic.rebalance import prepare_rebalance, void_assignment
from penstock.groups.classic.replies import sync_refused, synced
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked
from penstock.groups.timers import SyncEnds
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.wire.messages.sync_group import SyncGroupRequest

Syncing = Asked[SyncGroupRequest]
Decided = Decision[GroupRecord, object]

PROTOCOL_NAMED_FROM = 5  # of the request's versions


def decide_sync(group: ClassicGroup | None, context: DecisionContext, asked: Syncing) -> Decided:
    code = _check(group, asked)
    if code is not ErrorCode.NONE:
        return Decision.refuse(sync_refused(code))
    assert group is not None
    member_id = asked.request.member_id
    draft = Draft(group, context)
    _has_synced(draft, member_id)
    if group.state is ClassicState.STABLE:
        return draft.decision_with(synced(group, member_id))
    assert group.state is ClassicState.COMPLETING
    draft.park_sync(member_id, asked.ticket)
    if group.leader == member_id:
        _assign(draft, asked.request)
    return draft.decision(asked.ticket)


def names_its_protocol(asked: Syncing) -> bool:
    """Whether the request names protocol type and protocol, where its version requires them."""
    request = asked.request
    protocol = (request.protocol_type, request.protocol_name)
    return asked.version < PROTOCOL_NAMED_FROM or None not in protocol


def decide_sync_not_stored(
    group: ClassicGroup | None, context: DecisionContext, *, generation: int, code: ErrorCode
) -> Decided:
    """The journal could not store this generation's assignment: parked syncs get an error, and the
    group rebalances.
    """
    if (
        group is None
        or group.state is not ClassicState.COMPLETING
        or group.generation != generation
    ):
        return Decision.refuse(None)
    draft = Draft(group, context)
    void_assignment(draft, code)
    prepare_rebalance(draft)
    return draft.decision_with(None)


def _check(group: ClassicGroup | None, asked: Syncing) -> ErrorCode:
    request = asked.request
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    protocol = (request.protocol_type, request.protocol_name)
    if group is None or group.state is ClassicState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = check_generation(
        group,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    if code is not ErrorCode.NONE:
        return code
    for named, current in zip(protocol, (group.protocol_type, group.protocol_name), strict=True):
        if named is not None and current is not None and named != current:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _has_synced(draft: Draft, member_id: str) -> None:
    draft.group.unsynced.discard(member_id)
    if not draft.group.unsynced:
        draft.cancel(SyncEnds(group=draft.group.group_id))


def _assign(draft: Draft, request: SyncGroupRequest) -> None:
    """A member that the leader left out has nothing; ids that are not members are passed over."""
    group = draft.group
    parts = {part.member_id: bytes(part.assignment) for part in request.assignments}
    for member_id, member in tuple(group.members.items()):
        group.change(replace(member, assignment=parts.get(member_id, b"")))
    group.become(ClassicState.STABLE, now_ms=draft.context.now_ms)
    for member_id in tuple(group.members):
        draft.answer_sync(member_id, synced(group, member_id))
    draft.store()
