"""The clock of a simulated machine: virtual time at its pace, and a wall clock that may jump."""

from penstock.sim.loop import SimLoop
from penstock.sim.pace import TRUE_PACE, Pace

BEGIN_MS = 1_767_225_600_000  # 2026-01-01


class SimClock:
    def __init__(self, loop: SimLoop, pace: Pace = TRUE_PACE) -> None:
        self.ahead_ms = 0  # how far the wall clock is off
        self._pace = pace
        self._loop = loop

    @property
    def pace(self) -> Pace:
        return self._pace

    def now_ms(self) -> int:
        shown_us = self._loop.now_us
        if self._pace is not TRUE_PACE:
            shown_us = self._pace.shown_us(shown_us) - self._pace.offset_us
        return BEGIN_MS + shown_us // 1000 + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self.monotonic_us() // 1000

    def monotonic_us(self) -> int:
        if self._pace is TRUE_PACE:
            return self._loop.now_us
        return self._pace.shown_us(self._loop.now_us)
