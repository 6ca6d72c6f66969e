"""The keys of a shard's deadlines: what happens when time is up, and to whom."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnds:
    """A member has not been heard of for its session time-out."""

    group: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinEnds:
    """A classic rebalance waits no longer for members to join."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEnds:
    """A classic rebalance waits no longer for members to ask for their assignment."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMemberEnds:
    """A member that was given an id has not come back with it."""

    group: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationEnds:
    """A member of a consumer group has not given up partitions within its rebalance time-out."""

    group: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoinEnds:
    """A classic member of a consumer group was told to join again, and has not."""

    group: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSyncEnds:
    """A classic member of a consumer group has joined, and not asked for its assignment."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class OffsetsExpire:
    """The next look at offsets that nobody has used for long, and at groups left empty."""


TimerKey = (
    SessionEnds
    | JoinEnds
    | SyncEnds
    | PendingMemberEnds
    | RevocationEnds
    | MemberJoinEnds
    | MemberSyncEnds
    | OffsetsExpire
)
