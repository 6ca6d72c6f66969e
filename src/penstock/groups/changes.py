"""Changes of a shard that are not journalled: applied with a decision's records, lost on failover.

Changes of one protocol's own state are in that protocol's package.
"""

from typing import NamedTuple

from penstock.groups.timers import TimerKey


class SetDeadline(NamedTuple):
    """Time is up for this at `at_ms` of the monotonic clock, and not before."""

    key: TimerKey
    at_ms: int


class CancelDeadline(NamedTuple):
    """Time will not be up for this."""

    key: TimerKey
