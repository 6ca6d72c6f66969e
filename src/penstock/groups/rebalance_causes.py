"""Why a group rebalances: found by comparing the group before and after a decision.

`noted` is taken before the decision is applied, `causes` compares after it. Nothing is decided
here, and the rules know nothing of it: the coordinator logs what it finds.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

from penstock.groups.classic.group import ClassicGroup, ClassicMember, ClassicState
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.timers import SessionEnds, TimerKey
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.join_group import JoinGroupRequest
from penstock.wire.messages.leave_group import LeaveGroupRequest

Group = ClassicGroup | ConsumerGroup
Member = ClassicMember | ConsumerMember
Trigger = JoinGroupRequest | LeaveGroupRequest | ConsumerGroupHeartbeatRequest | TimerKey | None
# Requests that can begin a rebalance; all others cost nothing here.
MAY_REBALANCE = (JoinGroupRequest, LeaveGroupRequest, ConsumerGroupHeartbeatRequest)
CLASSIC, CONSUMER = "classic", "consumer"


class Cause(Enum):
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMED_OUT = "session_timed_out"
    REBALANCE_TIMED_OUT = "rebalance_timed_out"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_CHANGED = "partitions_changed"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    LEADER_REJOINED = "leader_rejoined"
    GROUP_TOO_LARGE = "group_too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What is needed of a group before a decision."""

    is_classic: bool
    generation: int  # of a consumer group, its epoch
    is_preparing: bool
    members: Mapping[str, Member]  # those that the decision may change


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    group: str
    cause: Cause
    member: Member | None
    generation: int
    members: int
    state: str
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A classic group has begun one."""

    group: str
    generation: int
    members: int
    leader: str | None
    protocol: str | None


def noted(group: Group | None, trigger: Trigger) -> Noted | None:
    """What `causes` compares with; None for a group that does not exist yet."""
    if group is None:
        return None
    if isinstance(group, ClassicGroup):
        # A value: the decision replaces it.
        return Noted(
            is_classic=True,
            generation=group.generation,
            is_preparing=group.state is ClassicState.PREPARING,
            members=group.members,
        )
    members: Mapping[str, Member]
    if isinstance(trigger, ConsumerGroupHeartbeatRequest) and trigger.member_epoch > 0:
        member = group.members.get(trigger.member_id)
        members = {} if member is None else {trigger.member_id: member}
    else:
        members = dict(group.members)
    return Noted(is_classic=False, generation=group.epoch, is_preparing=False, members=members)


def causes(
    before: Noted | None, group: Group | None, trigger: Trigger
) -> Iterator[Rebalance | Generation]:
    """`group` is as the decision has left it."""
    if group is None:
        return
    if isinstance(group, ClassicGroup):
        yield from _of_classic(before, group, trigger)
    elif before is None or before.is_classic or group.epoch != before.generation:
        yield from _of_consumer(before, group, trigger)


def _of_classic(
    before: Noted | None, group: ClassicGroup, trigger: Trigger
) -> Iterator[Rebalance | Generation]:
    known: Mapping[str, Member] = {} if before is None else before.members
    generation = 0 if before is None or not before.is_classic else before.generation
    moves_on = group.generation != generation
    begins = group.state is ClassicState.PREPARING and not (before and before.is_preparing)
    if known is group.members or not (moves_on or begins or known.keys() != group.members.keys()):
        return
    found = tuple(_changes(known, group.members, trigger))
    if not found and (begins or moves_on) and isinstance(trigger, JoinGroupRequest):
        again: Member | None = group.members.get(trigger.member_id)
        if _subscription(again) != _subscription(known.get(trigger.member_id)):
            found = ((Cause.SUBSCRIPTION_CHANGED, again),)
        elif begins or not (before and before.is_preparing):
            found = ((Cause.LEADER_REJOINED, again),)
    for cause, member in found:
        yield Rebalance(
            group=group.group_id,
            cause=cause,
            member=member,
            generation=group.generation,
            members=len(group.members),
            state=group.state.value,
            protocol=CLASSIC,
        )
    if moves_on:
        yield Generation(
            group=group.group_id,
            generation=group.generation,
            members=len(group.members),
            leader=group.leader,
            protocol=group.protocol_name,
        )


def _of_consumer(
    before: Noted | None, group: ConsumerGroup, trigger: Trigger
) -> Iterator[Rebalance]:
    known: Mapping[str, Member] = {} if before is None else before.members
    now: Mapping[str, Member] = group.members
    member: Member | None = None
    if isinstance(trigger, ConsumerGroupHeartbeatRequest) and trigger.member_epoch > 0:
        member = group.members.get(trigger.member_id)
        now = {} if member is None else {trigger.member_id: member}
    found = tuple(_changes(known, now, trigger))
    if not found:
        earlier = None if member is None else known.get(member.member_id)
        resubscribes = earlier is not None and _subscription(member) != _subscription(earlier)
        cause = Cause.SUBSCRIPTION_CHANGED if resubscribes else Cause.PARTITIONS_CHANGED
        found = ((cause, member),)
    for cause, one in found:
        yield Rebalance(
            group=group.group_id,
            cause=cause,
            member=one,
            generation=group.epoch,
            members=len(group.members),
            state=group.state.value,
            protocol=CONSUMER,
        )


def _changes(
    known: Mapping[str, Member], now: Mapping[str, Member], trigger: Trigger
) -> Iterator[tuple[Cause, Member | None]]:
    """Who has come and gone."""
    gone = [member for member_id, member in known.items() if member_id not in now]
    instances = {one.instance_id for one in gone if one.instance_id is not None}
    replaced: set[str] = set()
    for member_id, member in now.items():
        if member_id in known:
            continue
        if member.instance_id is not None and member.instance_id in instances:
            replaced.add(member.instance_id)
            yield Cause.STATIC_MEMBER_REPLACED, member
        else:
            yield Cause.MEMBER_JOINED, member
    for member in gone:
        if member.instance_id is None or member.instance_id not in replaced:
            yield _why_gone(trigger), member


def _why_gone(trigger: Trigger) -> Cause:
    if isinstance(trigger, SessionEnds):
        return Cause.SESSION_TIMED_OUT
    if isinstance(trigger, LeaveGroupRequest | ConsumerGroupHeartbeatRequest):
        return Cause.MEMBER_LEFT
    if isinstance(trigger, JoinGroupRequest):
        # The last one that was missing has joined, or there is no room for it.
        return Cause.GROUP_TOO_LARGE
    return Cause.REBALANCE_TIMED_OUT


def _subscription(member: Member | None) -> object:
    if member is None:
        return None
    if isinstance(member, ClassicMember):
        return member.protocols
    return member.topics, member.regex
