"""Changes of a shard that are not journalled: applied with a decision, lost on failover."""

from dataclasses import dataclass

from penstock.model.identity import TopicPartition
from penstock.transactions.timers import TimerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDeadline:
    """Time is up for this at `at_ms` of the monotonic clock, and not before."""

    key: TimerKey
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelDeadline:
    """Time will not be up for this."""

    key: TimerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsMarked:
    """Some partitions of a decided transaction have their markers; others have yet to get them."""

    transactional_id: str
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReached:
    """The ids that this round of expiry has still to look at; none: it is over."""

    left: tuple[str, ...]


VolatileChange = SetDeadline | CancelDeadline | PartitionsMarked | ExpiryReached
