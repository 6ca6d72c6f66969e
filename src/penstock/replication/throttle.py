"""How much a broker sends to replicas that are out of sync, or fetches for them (KIP-73).

A reassignment copies whole logs, and would take what clients need. So an operator lists replicas in
`leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` of a topic,
and sets a rate in bytes a second on the brokers: `leader.replication.throttled.rate` for what a
broker sends, `follower.replication.throttled.rate` for what it fetches. Replicas that are in sync
are never held back: acks wait for them.

What passes is paid for afterwards: a batch that is larger than what may pass is let through, and
nothing more until the rate has made up for it. So the mean is the rate, whatever the sizes of
batches. What was not used is kept for a moment, because fetches are not answered at once.
"""

from collections.abc import Container
from typing import Final

from penstock.model.identity import NodeId

CREDIT_MS_MAX: Final = 1_000  # longer than a fetch waits at its leader
BLOCKED_MS: Final = 1_000  # with a rate of zero
ALL: Final = "*"


def is_listed(replicas: Container[str], *, partition: int, node: NodeId) -> bool:
    """Whether a setting of the topic names the replica of this node: `partition:broker`, or *."""
    return f"{partition}:{node}" in replicas or ALL in replicas


class ReplicationThrottle:
    """One direction of one broker. `rate_bytes`: a second; None: there is no limit."""

    __slots__ = ("_free_ms", "rate_bytes")

    def __init__(self) -> None:
        self.rate_bytes: int | None = None
        self._free_ms = 0.0  # when the rate will have made up for what has passed

    def limit(self, rate_bytes: int | None, *, now_ms: int) -> None:
        """From now on. A new rate begins without credit or debt."""
        if rate_bytes != self.rate_bytes:
            self.rate_bytes = rate_bytes
            self._free_ms = float(now_ms)

    def room_bytes(self, *, now_ms: int) -> int:
        """How much may pass now; more does no harm, but is paid for. 0: nothing may."""
        rate = self.rate_bytes
        assert rate is not None, "nothing is limited"
        free_ms = max(self._free_ms, float(now_ms - CREDIT_MS_MAX))
        return max(int((now_ms - free_ms) * rate / 1000), 0)

    def wait_ms(self, *, now_ms: int) -> int:
        """How long nothing may pass."""
        if self.room_bytes(now_ms=now_ms) > 0:
            return 0
        if self.rate_bytes == 0:
            return BLOCKED_MS
        return max(int(self._free_ms - now_ms) + 1, 1)

    def passed(self, byte_count: int, *, now_ms: int) -> None:
        assert byte_count >= 0, byte_count
        rate = self.rate_bytes
        assert rate is not None, "nothing is limited"
        if rate > 0:
            free_ms = max(self._free_ms, float(now_ms - CREDIT_MS_MAX))
            self._free_ms = free_ms + byte_count * 1000 / rate
