"""Changes of a shard that are not journalled: applied with a decision's records, lost on failover.

Changes of one protocol's own state are in that protocol's package.
"""

from dataclasses import dataclass

from penstock.groups.timers import TimerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDeadline:
    """Time is up for this at `at_ms` of the monotonic clock, and not before."""

    key: TimerKey
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelDeadline:
    """Time will not be up for this."""

    key: TimerKey
