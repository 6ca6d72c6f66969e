"""The time of one seed: events in their order, and the randomness that all of them share."""

from heapq import heappop, heappush
from random import Random


class Timeline:
    """Events of the same time come in the order in which they were made."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self._events: list[tuple[int, int, int, object]] = []
        self._sequence = 0

    def at(self, wait_ms: int, kind: int, what: object) -> None:
        self.at_time(self.now_ms + wait_ms, kind, what)

    def at_time(self, time_ms: int, kind: int, what: object) -> None:
        self._sequence += 1
        heappush(self._events, (time_ms, self._sequence, kind, what))

    def next_event(self) -> tuple[int, object]:
        """What it does and to what; it is then its time."""
        assert self._events, "somebody always waits for something"
        self.now_ms, _, kind, what = heappop(self._events)
        return kind, what

    def below(self, bound: int) -> int:
        """A random number from 0 on; cheaper than `randrange`, which is drawn a lot."""
        return int(self.random.random() * bound)
