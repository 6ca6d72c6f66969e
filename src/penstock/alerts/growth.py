"""How much logs grow between two looks at their ends."""

from collections.abc import Container, Hashable, Mapping
from typing import Generic, TypeVar

Place = TypeVar("Place", bound=Hashable)


class Growth(Generic[Place]):
    """A place that was not there at the last look has grown by nothing, unless it is known to have
    begun since, at 0. One whose end went back, as after a truncation, has grown by nothing either.
    """

    def __init__(self) -> None:
        self._ends: Mapping[Place, int] = {}
        self._at_ms: int | None = None

    def look(
        self, ends: Mapping[Place, int], *, begun: Container[Place] = (), now_ms: int
    ) -> "tuple[dict[Place, int], float]":
        """By how much each place has grown, and in how many seconds; 0 seconds at first. Those that
        have `begun` since the last look have grown by all that they hold, but at first by nothing.
        """
        before, self._ends = self._ends, ends
        is_first = self._at_ms is None
        seconds = 0.0 if self._at_ms is None else (now_ms - self._at_ms) / 1000
        self._at_ms = now_ms
        grown: dict[Place, int] = {}
        for place, end in ends.items():
            if place in begun and not is_first:
                grown[place] = end
            elif place in before:
                grown[place] = max(end - before[place], 0)
        return grown, seconds
