"""The keys of a shard's deadlines: what the deadline is for, and whose it is.

They are tuples, because each heartbeat creates one and looks it up. Tuples of two kinds with the
same content would be equal; so the last field of each kind, which has a default, names the kind.
"""

from typing import NamedTuple


class SessionEnds(NamedTuple):
    """A member has not been heard of for its session time-out."""

    group: str
    member: str
    what: str = "session ends"


class JoinEnds(NamedTuple):
    """The time for members to join a classic rebalance is over."""

    group: str
    what: str = "join ends"


class SyncEnds(NamedTuple):
    """The time for members to send SyncGroup in a classic rebalance is over."""

    group: str
    what: str = "sync ends"


class PendingMemberEnds(NamedTuple):
    """A member that was given an id has not come back with it."""

    group: str
    member: str
    what: str = "pending member ends"


class RevocationEnds(NamedTuple):
    """A member of a consumer group has not given up partitions within its rebalance time-out."""

    group: str
    member: str
    what: str = "revocation ends"


class MemberJoinEnds(NamedTuple):
    """A classic member of a consumer group was told to join again, and has not."""

    group: str
    member: str
    what: str = "member join ends"


class MemberSyncEnds(NamedTuple):
    """A classic member of a consumer group has joined, and not asked for its assignment."""

    group: str
    member: str
    what: str = "member sync ends"


class DeletionGoesOn(NamedTuple):
    """A group that is being deleted has more offsets than one step takes."""

    group: str
    what: str = "deletion goes on"


class OffsetsExpire(NamedTuple):
    """The next round of expiry of offsets and empty groups."""

    what: str = "offsets expire"


TimerKey = (
    SessionEnds
    | JoinEnds
    | SyncEnds
    | PendingMemberEnds
    | RevocationEnds
    | MemberJoinEnds
    | MemberSyncEnds
    | DeletionGoesOn
    | OffsetsExpire
)
