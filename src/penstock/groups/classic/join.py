"""JoinGroup: which clients may join, get an id first, or rejoin. Start at `decide_join`."""

from collections import Counter
from dataclasses import replace

from penstock.groups.changes import CancelDeadline, SetDeadline
from penstock.groups.classic.changes import ClassicGroupBecame, MemberIdForgotten, MemberIdGiven
from penstock.groups.classic.draft import Draft
from penstock.groups.classic.group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    SupportedProtocol,
    size_bytes,
)
from penstock.groups.classic.rebalance import complete_join_if_ready, rebalance_or_complete_join
from penstock.groups.classic.rejoin import rejoin, replace_static
from penstock.groups.classic.replies import join_refused
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked
from penstock.groups.timers import PendingMemberEnds, SessionEnds
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.model.limit import (
    CLASSIC_GROUP_MEMBERS_MAX,
    CLASSIC_PROTOCOLS_BYTES_MAX,
    CLASSIC_PROTOCOLS_MAX,
    DECISION_BYTES_MAX,
    MEMBER_ID_PREFIX_LENGTH_MAX,
    NEW_MEMBER_JOIN_MS_MAX,
    PENDING_MEMBER_MS_MAX,
    PENDING_MEMBERS_MAX,
)
from penstock.model.settings.groups import GroupSettings
from penstock.wire.messages.join_group import JoinGroupRequest

Joining = Asked[JoinGroupRequest]
Decided = Decision[GroupRecord, object]

MEMBER_ID_REQUIRED_FROM = 4  # of the request's versions
REBALANCE_TIMEOUT_FROM = 1


def decide_join(group: ClassicGroup | None, context: DecisionContext, asked: Joining) -> Decided:
    request = asked.request
    member_id = request.member_id
    if not request.group_id:
        return _refuse(ErrorCode.INVALID_GROUP_ID, member_id)
    settings = context.settings
    code = check_session_timeout(request, settings)
    if code is ErrorCode.NONE and len(request.protocols) > CLASSIC_PROTOCOLS_MAX:
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code is not ErrorCode.NONE:
        return _refuse(code, member_id)
    if group is None:
        if member_id:
            return _refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        group = ClassicGroup(group_id=request.group_id, state_since_ms=context.now_ms)
    members_max = min(settings.group_max_size, CLASSIC_GROUP_MEMBERS_MAX)
    if not _has_room(group, member_id, members_max=members_max):
        return _turn_away(group, context, member_id)
    if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    if not _fits(group, request):
        return _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, member_id)
    if not member_id:
        return _join_as_stranger(group, context, asked)
    if member_id in group.pending:
        if request.group_instance_id is not None:
            return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, member_id)  # ids of static members
        return _add(Draft(group, context), asked, member_id)
    return rejoin(group, context, asked, member_of(asked, member_id))


def check_session_timeout(request: JoinGroupRequest, settings: GroupSettings) -> ErrorCode:
    shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if shortest <= request.session_timeout_ms <= longest:
        return ErrorCode.NONE
    return ErrorCode.INVALID_SESSION_TIMEOUT


def member_of(asked: Joining, member_id: str) -> ClassicMember:
    """The member that a JoinGroup describes."""
    request = asked.request
    return ClassicMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=asked.client_id,
        client_host=asked.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms
            if asked.version >= REBALANCE_TIMEOUT_FROM
            else request.session_timeout_ms
        ),
        protocols=tuple(
            SupportedProtocol(protocol.name, bytes(protocol.metadata))
            for protocol in request.protocols
        ),
    )


def _has_room(group: ClassicGroup, member_id: str, *, members_max: int) -> bool:
    """While a rebalance is prepared those that have joined count, so that the last ones of a group
    that has become too large are turned away.
    """
    member = group.members.get(member_id)
    match group.state:
        case ClassicState.EMPTY:
            return True
        case ClassicState.PREPARING:
            waits_already = member is not None and member.join_ticket is not None
            return waits_already or group.joined_count < members_max
        case ClassicState.COMPLETING | ClassicState.STABLE:
            return member is not None or len(group.members) < members_max


def _fits(group: ClassicGroup, request: JoinGroupRequest) -> bool:
    """Whether the group could still be stored with what the member brings, whichever of its
    protocols is chosen, and holds no more memory than it may.
    """
    known_id = request.member_id or group.static_members.get(request.group_instance_id or "", "")
    known = group.members.get(known_id)
    growth: Counter[str] = Counter()  # of the metadata, by protocol
    growth_bytes = 0
    for protocol in request.protocols:
        growth[protocol.name] += len(protocol.metadata)
        growth_bytes += len(protocol.name) + len(protocol.metadata)
    if known is not None:
        for former in known.protocols:
            growth[former.name] -= len(former.metadata)
        growth_bytes -= size_bytes(known.protocols)
    return group.protocols_bytes + growth_bytes <= CLASSIC_PROTOCOLS_BYTES_MAX and all(
        group.metadata_bytes[protocol.name] + growth[protocol.name] <= DECISION_BYTES_MAX
        for protocol in request.protocols
    )


def _turn_away(group: ClassicGroup, context: DecisionContext, member_id: str) -> Decided:
    refused = join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if member_id not in group.members and member_id not in group.pending:
        return Decision.refuse(refused)
    draft = Draft(group, context)
    if member_id in group.members:
        draft.remove(member_id)
    if member_id in group.pending:
        draft.forget_pending(member_id)
    if group.state is ClassicState.PREPARING:
        complete_join_if_ready(draft)
    return draft.decision_with(refused)


def _join_as_stranger(group: ClassicGroup, context: DecisionContext, asked: Joining) -> Decided:
    instance_id = asked.request.group_instance_id
    prefix = (instance_id or asked.client_id)[:MEMBER_ID_PREFIX_LENGTH_MAX]
    new_id = f"{prefix}-{context.fresh_id()}"
    if instance_id is None and asked.version >= MEMBER_ID_REQUIRED_FROM:
        return _give_id(group, context, asked, new_id)
    draft = Draft(group, context)
    if instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is not None:
            return replace_static(draft, asked, old_id, member_of(asked, new_id))
    return _add(draft, asked, new_id)


def _give_id(group: ClassicGroup, context: DecisionContext, asked: Joining, new_id: str) -> Decided:
    """The client comes back with the id, or nothing comes of it."""
    name = group.group_id
    changes: list[object] = []
    if len(group.pending) >= PENDING_MEMBERS_MAX:
        oldest = next(iter(group.pending))
        changes.append(MemberIdForgotten(group=name, member=oldest))
        changes.append(CancelDeadline(key=PendingMemberEnds(group=name, member=oldest)))
    elif not group.pending:
        changes.append(ClassicGroupBecame(group=group))  # it may be new
    wait_ms = min(asked.request.session_timeout_ms, PENDING_MEMBER_MS_MAX)
    changes.append(MemberIdGiven(group=name, member=new_id))
    changes.append(
        SetDeadline(
            key=PendingMemberEnds(group=name, member=new_id),
            at_ms=context.monotonic_ms + wait_ms,
        )
    )
    return Decision(
        reply=join_refused(ErrorCode.MEMBER_ID_REQUIRED, new_id), volatile=tuple(changes)
    )


def _add(draft: Draft, asked: Joining, member_id: str) -> Decided:
    group = draft.group
    draft.forget_pending(member_id)
    if group.initial is not None:
        group.initial = replace(group.initial, someone_came=True)
    member = replace(member_of(asked, member_id), is_new=True)
    group.add(member, protocol_type=asked.request.protocol_type)
    draft.park_join(member_id, asked.ticket)
    # A new member sends no heartbeats before it has its generation, so a client that gave up cannot
    # be noticed: its join is not parked for longer than this. A running client tries again.
    session = SessionEnds(group=group.group_id, member=member_id)
    draft.wait(session, for_ms=NEW_MEMBER_JOIN_MS_MAX)
    rebalance_or_complete_join(draft)
    return draft.decision(asked.ticket)


def _refuse(code: ErrorCode, member_id: str) -> Decided:
    return Decision.refuse(join_refused(code, member_id))
