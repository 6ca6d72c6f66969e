"""Changes of a shard that are not journalled: applied with a decision, lost on failover."""

from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.timers import TimerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDeadline:
    """Sets the deadline of a key to `at_ms` on the monotonic clock."""

    key: TimerKey
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelDeadline:
    """Removes the deadline of a key."""

    key: TimerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsMarked:
    """Some partitions of a decided transaction have their markers; others do not yet."""

    transactional_id: str
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReached:
    """The ids that this round of expiry has still to check; empty when it is over."""

    left: tuple[str, ...]


VolatileChange = SetDeadline | CancelDeadline | PartitionsMarked | ExpiryReached
