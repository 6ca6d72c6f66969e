"""The clock of a simulated machine: virtual time at its pace, and a wall clock that may jump."""

from penstock.sim.loop import SimLoop
from penstock.sim.pace import TRUE_PACE, Pace

BEGIN_MS = 1_767_225_600_000  # 2026-01-01


class SimClock:
    def __init__(self, loop: SimLoop, pace: Pace = TRUE_PACE) -> None:
        self.ahead_ms = 0  # how far the wall clock is off
        self.pace = pace
        self._loop = loop

    def now_ms(self) -> int:
        shown_us = self.pace.shown_us(self._loop.now_us) - self.pace.offset_us
        return BEGIN_MS + shown_us // 1000 + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self.pace.shown_us(self._loop.now_us) // 1000
