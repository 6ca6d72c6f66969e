"""Changes of a shard that are not journalled: applied with a decision's records, lost on failover.

Changes of one protocol's own state are in that protocol's package.
"""

from typing import NamedTuple

from penstock.groups.timers import TimerKey


class SetDeadline(NamedTuple):
    """Sets the deadline of a key to `at_ms` on the monotonic clock."""

    key: TimerKey
    at_ms: int


class CancelDeadline(NamedTuple):
    """Removes the deadline of a key."""

    key: TimerKey
