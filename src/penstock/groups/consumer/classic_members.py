"""Members of a consumer group that use the classic protocol: the group is being upgraded or
downgraded.

To them it is a classic group with another leader. JoinGroup is answered at once, with the member's
epoch as generation; the reply to SyncGroup has the member's partitions; the reply to a heartbeat
tells it to join again whenever it has to give up or to take over partitions.
"""

from dataclasses import replace

from penstock.groups.classic import join as classic_join
from penstock.groups.classic.group import CONSUMER_PROTOCOL_TYPE, SupportedProtocol, size_bytes
from penstock.groups.classic.replies import join_refused, sync_refused
from penstock.groups.consumer.admission import admit
from penstock.groups.consumer.advance import advance
from penstock.groups.consumer.checks import known_member
from penstock.groups.consumer.conversion import (
    changes_after_consumer_end,
    encoded_assignment,
    ended_records,
    has_become_classic,
    partitions_of,
    replaced_by_classic,
)
from penstock.groups.consumer.draft import Decided, Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ClassicSide, ConsumerMember, MemberState
from penstock.groups.consumer.reconcile import LastReply
from penstock.groups.decision_context import DecisionContext
from penstock.groups.requests import Asked
from penstock.groups.timers import MemberJoinEnds, MemberSyncEnds, RevocationEnds, TimerKey
from penstock.machine.deadlines import Deadlines
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import CLASSIC_PROTOCOLS_BYTES_MAX, CLASSIC_PROTOCOLS_MAX
from penstock.wire.embedded import read_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Joining = Asked[JoinGroupRequest]


def decide_join(group: ConsumerGroup, context: DecisionContext, asked: Joining) -> Decided:
    """An empty consumer group is replaced by a classic one."""
    if not group.members:
        decision = classic_join.decide_join(None, context, asked)
        if not decision.volatile:
            return decision  # refused: the group stays what it is
        return replace(
            decision,
            records=(*ended_records(group), *decision.records),
            volatile=(*changes_after_consumer_end(group), *decision.volatile),
        )
    code = classic_join.check_session_timeout(asked.request, context.settings)
    if code is not ErrorCode.NONE:
        return Decision.refuse(join_refused(code, asked.request.member_id))
    try:
        return _join(group, context, asked)
    except RequestError as refusal:
        return Decision.refuse(join_refused(refusal.code, asked.request.member_id))


def decide_sync(
    group: ConsumerGroup,
    context: DecisionContext,
    asked: Asked[SyncGroupRequest],
    deadlines: Deadlines[TimerKey],
) -> Decided:
    request = asked.request
    try:
        member, side = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        protocol = side.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            request.protocol_name not in (None, protocol.name)
        ):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    except RequestError as refusal:
        return Decision.refuse(sync_refused(refusal.code))
    draft = Draft(group, context)
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(draft, member, deadlines)
        return draft.decision(sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    draft.cancel(MemberSyncEnds(group=group.group_id, member=member.member_id))
    draft.restart_session(member)
    reply = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encoded_assignment(member.assigned, context.image, metadata=protocol.metadata),
    )
    return draft.decision(reply)


def decide_heartbeat(
    group: ConsumerGroup,
    context: DecisionContext,
    asked: Asked[HeartbeatRequest],
    deadlines: Deadlines[TimerKey],
) -> Decided:
    request = asked.request
    try:
        member, _ = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
    except RequestError as refusal:
        return Decision.refuse(HeartbeatResponse(error_code=refusal.code))
    draft = Draft(group, context)
    draft.restart_session(member)
    if not _has_to_join(group, member):
        return draft.decision(HeartbeatResponse())
    _await_join(draft, member, deadlines)
    return draft.decision(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _join(group: ConsumerGroup, context: DecisionContext, asked: Joining) -> Decided:
    request, instance_id = asked.request, asked.request.group_instance_id
    protocols = _supported(group, request)
    subscription = _subscription(protocols[0])
    draft = Draft(group, context)
    if not request.member_id:
        new_id = context.fresh_id()
        member = admit(draft, member_id=new_id, instance_id=instance_id, uses_classic_protocol=True)
        if instance_id is None and asked.version >= classic_join.MEMBER_ID_REQUIRED_FROM:
            return Decision.refuse(join_refused(ErrorCode.MEMBER_ID_REQUIRED, new_id))
    elif instance_id is None:
        member = admit(
            draft, member_id=request.member_id, instance_id=None, uses_classic_protocol=True
        )
    else:
        member = known_member(group, member_id=request.member_id, instance_id=instance_id)
    joined = classic_join.member_of(asked, member.member_id)
    told = replace(
        member,
        instance_id=instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=joined.client_id,
        client_host=joined.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        rebalance_timeout_ms=joined.rebalance_timeout_ms,
        classic=ClassicSide(
            session_timeout_ms=joined.session_timeout_ms, protocols=joined.protocols
        ),
    )
    owned = frozenset(partitions_of(subscription.owned_partitions, context.image))
    member = advance(draft, told, reported=owned, last_reply=LastReply.VOID)
    return _joined(group, draft, member, ticket=asked.ticket)


def _joined(group: ConsumerGroup, draft: Draft, member: ConsumerMember, *, ticket: int) -> Decided:
    assert member.classic is not None
    reply = JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0].name,
    )
    if has_become_classic(group, draft):
        return replaced_by_classic(group, draft, reply, ticket=ticket)
    name = draft.group.group_id
    draft.cancel(MemberJoinEnds(group=name, member=member.member_id))
    draft.cancel(RevocationEnds(group=name, member=member.member_id))  # of the other protocol
    draft.restart_session(member)
    key = MemberSyncEnds(group=name, member=member.member_id)
    draft.wait(key, for_ms=member.rebalance_timeout_ms)
    return draft.decision(reply)


def _supported(group: ConsumerGroup, request: JoinGroupRequest) -> tuple[SupportedProtocol, ...]:
    """What it brings; one of its protocols must be known to all the classic members."""
    if len(request.protocols) > CLASSIC_PROTOCOLS_MAX:
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    common = {protocol.name for protocol in request.protocols}
    known_id = request.member_id or group.static_members.get(request.group_instance_id or "")
    others_bytes = 0
    for member_id, member in group.members.items():
        if member.classic is not None:
            common.intersection_update(protocol.name for protocol in member.classic.protocols)
            if member_id != known_id:
                others_bytes += size_bytes(member.classic.protocols)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not common:
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    brought = tuple(
        SupportedProtocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
    )
    if others_bytes + size_bytes(brought) > CLASSIC_PROTOCOLS_BYTES_MAX:
        raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    return brought


def _subscription(protocol: SupportedProtocol) -> ConsumerProtocolSubscription:
    """All protocols of a consumer carry the same subscription."""
    try:
        return read_embedded(ConsumerProtocolSubscription, protocol.metadata)
    except MalformedMessage as error:
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicSide]:
    member = known_member(group, member_id=member_id, instance_id=instance_id)
    if member.classic is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """There is another epoch, something to give up, or what it waits for has become free."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    target = group.target.get(member.member_id, frozenset())
    return not any(p in group.owners for p in target if p not in member.assigned)


def _await_join(draft: Draft, member: ConsumerMember, deadlines: Deadlines[TimerKey]) -> None:
    """A member has its rebalance time-out to join, counted from the first notification."""
    key = MemberJoinEnds(group=draft.group.group_id, member=member.member_id)
    if deadlines.at(key) is None:
        draft.wait(key, for_ms=member.rebalance_timeout_ms)
