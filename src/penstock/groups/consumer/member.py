"""A member of a consumer group, as the journal stores it.

A member changes its partitions in three states, while the other members continue to read:

    STABLE ───── the target takes partitions away ─────► UNREVOKED_PARTITIONS
      ▲  ▲                                                 │  no longer reports them as owned
      │  └─────────────── all of the target is free ───────┤
      │                                                    ▼
      └── what it waits for is released ────── UNRELEASED_PARTITIONS  (others have not let go yet)

A member that is UNRELEASED may have partitions to give up itself: it reported that it does not own
them, but may not have received their revocation (`consumer/reconcile`).
"""

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from types import MappingProxyType

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.classic.group import SupportedProtocol
from penstock.model.lazy_dataclass import dataclass

JOINING_EPOCH = 0  # of a member that owns nothing and knows no assignment
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2  # of a static member that is about to come back


class MemberState(IntEnum):
    """The state of a member between two assignments, by Kafka's numbers."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127  # written by a coordinator that knows more states

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


# Partitions, each with the member's epoch since which it is owned: commits from before it are late.
Owned = Mapping[TopicIdPartition, int]
NOTHING: Owned = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSide:
    """The classic part of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None  # of a static member: its name across restarts
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()  # subscribed by name; sorted, each once
    regex: str = ""  # subscribed by pattern; "" when it is not
    rebalance_timeout_ms: int = -1
    assignor: str | None = None  # the one it would like
    classic: ClassicSide | None = None  # None: it speaks the consumer protocol
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH  # changes only when the epoch does
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)  # to be given up; given to nobody else yet

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def epoch_of(self, partition: TopicIdPartition) -> int | None:
        """Since which epoch it owns the partition; None when it does not."""
        since = self.assigned.get(partition)
        return self.revoking.get(partition) if since is None else since
