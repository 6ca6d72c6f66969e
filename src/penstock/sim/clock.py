"""The clock of a simulated machine: virtual time, and a wall clock that may jump."""

from penstock.sim.loop import SimLoop

BEGIN_MS = 1_767_225_600_000  # 2026-01-01


class SimClock:
    def __init__(self, loop: SimLoop) -> None:
        self.ahead_ms = 0  # how far the wall clock is off
        self._loop = loop

    def now_ms(self) -> int:
        return BEGIN_MS + self._loop.now_us // 1000 + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self._loop.now_us // 1000
