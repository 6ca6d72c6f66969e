"""A clock whose monotonic time a test can hold."""

from penstock.world.ports import Clock


class HeldClock:
    """The clock of the world; its monotonic time can be held, and then passes only as told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held_ms: int | None = None

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms() if self._held_ms is None else self._held_ms

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us() if self._held_ms is None else self._held_ms * 1000

    def hold(self, *, later_ms: int = 0) -> None:
        self._held_ms = self.monotonic_ms() + later_ms
