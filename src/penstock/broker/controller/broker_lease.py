"""How long this broker may take itself for unfenced, by its own clock.

The controller fences a broker that it has not heard from for `broker.session.timeout.ms`, and
elects others. A broker that is cut off is not told. But it knows when it sent the last heartbeat
that was acknowledged: the controller heard it after that, so nobody else leads before this moment
plus the session. Until then what this broker coordinates may be answered from memory.

The only voter decides itself whether its broker is fenced, in the same process: while it is that,
its broker needs no acknowledgement. Voters that are added later end this.

An acknowledgement may unfence a broker that was fenced meanwhile. It names how far the metadata has
come, and counts once this broker's own metadata has come as far: then it shows who else leads.

Not covered is a broker that is fenced before its session is over because its endpoint refuses
connections: such a process is dead (ADR 34).
"""

from collections.abc import Callable

ENDLESS_MS = 1 << 62
NO_MS = -1


class BrokerLease:
    """`timeout_ms` is None for a broker that is a cluster of its own. `metadata_offset` says how
    far this broker's metadata has come, `is_own_controller` whether only its own process could
    fence it just now. Times are monotonic.

    Invariant: what waits in `_next_until_ms` has not been reached by the metadata when it was last
    compared; `_until_ms` never grows by it before that.
    """

    def __init__(
        self,
        *,
        timeout_ms: int | None,
        metadata_offset: Callable[[], int] = lambda: 0,
        is_own_controller: Callable[[], bool] = lambda: False,
    ) -> None:
        assert timeout_ms is None or timeout_ms > 0, timeout_ms
        self._timeout_ms = timeout_ms
        self._metadata_offset = metadata_offset
        self._is_own_controller = is_own_controller
        self._until_ms = ENDLESS_MS if timeout_ms is None else NO_MS
        self._next_until_ms = NO_MS
        self._next_offset = 0

    def is_valid(self, now_ms: int) -> bool:
        """Whether no other broker can have taken over what this one leads by its own metadata."""
        if now_ms < self._until_ms:
            return True
        self._count_reached()
        return now_ms < self._until_ms or self._is_own_controller()

    def acknowledged(self, *, sent_ms: int, metadata_offset: int) -> None:
        """The active controller has answered that this broker is not fenced; its metadata ended at
        the offset then.
        """
        if self._timeout_ms is None:
            return
        self._count_reached()
        self._next_until_ms = sent_ms + self._timeout_ms
        self._next_offset = metadata_offset
        self._count_reached()

    def fenced(self) -> None:
        """The controller has said so."""
        if self._timeout_ms is not None:
            self._until_ms = self._next_until_ms = NO_MS

    def _count_reached(self) -> None:
        if self._next_until_ms > self._until_ms and self._metadata_offset() >= self._next_offset:
            self._until_ms = self._next_until_ms
