"""By how much counters have grown over the last minutes, as `increase` of Prometheus tells it."""

from collections import deque

READINGS_PER_WINDOW = 32


class Window:
    """Counters that only grow, all 0 when the window is made.

    Of many readings only some are kept, so a window may be shorter than asked for: by one part in
    READINGS_PER_WINDOW, or by the time between two looks. It is longer only where that time is. So
    what was counted once is within it for no longer than asked for. At first it is as long as it
    is old.
    """

    def __init__(self, counters: int, *, length_ms: int, now_ms: int) -> None:
        self._length_ms = length_ms
        self._spacing_ms = length_ms // READINGS_PER_WINDOW
        # When, and what the counters were: from the start of the window on.
        self._readings: deque[tuple[int, tuple[int, ...]]] = deque([(now_ms, (0,) * counters)])

    def look(self, counters: tuple[int, ...], *, now_ms: int) -> tuple[int, ...]:
        """By how much each counter has grown within the window."""
        readings = self._readings
        while len(readings) > 1 and readings[0][0] < now_ms - self._length_ms:
            readings.popleft()
        grown = tuple(now - before for now, before in zip(counters, readings[0][1], strict=True))
        assert min(grown) >= 0, grown
        if now_ms - readings[-1][0] > self._spacing_ms:
            readings.append((now_ms, counters))
        assert len(readings) <= READINGS_PER_WINDOW + 2
        return grown
