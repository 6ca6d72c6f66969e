"""How much logs grow between two looks at their ends."""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Place = TypeVar("Place", bound=Hashable)


class Growth(Generic[Place]):
    """A place that was not there at the last look has grown by nothing: where it began is not
    known. One whose end went back, as after a truncation, has grown by nothing either.
    """

    def __init__(self) -> None:
        self._ends: Mapping[Place, int] = {}
        self._at_ms: int | None = None

    def look(self, ends: Mapping[Place, int], *, now_ms: int) -> "tuple[dict[Place, int], float]":
        """By how much each place has grown, and in how many seconds; 0 seconds at first."""
        before, self._ends = self._ends, ends
        seconds = 0.0 if self._at_ms is None else (now_ms - self._at_ms) / 1000
        self._at_ms = now_ms
        grown = {
            place: max(end - before[place], 0) for place, end in ends.items() if place in before
        }
        return grown, seconds
