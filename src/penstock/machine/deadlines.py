"""Deadlines by key: which one is next, and which ones have passed.

A heap with lazy deletion. Most deadlines are extended again and again (every heartbeat extends that
of a session), so a later time only rewrites the key's entry: its position in the heap changes when
it reaches the top.

Invariants:
1. A key has at most one deadline, and exactly one valid position in the heap.
2. The position is no later than the deadline, so no deadline can be missed.
3. There are fewer invalid positions than valid ones, plus a small constant.
"""

import heapq
from typing import Generic, TypeVar

Key = TypeVar("Key")

STALE_PLACES_MAX = 64  # kept without counting


class Deadlines(Generic[Key]):
    """Keys with equal deadlines come in the order in which they were added, in every run."""

    def __init__(self) -> None:
        self._at: dict[Key, int] = {}
        self._places: dict[Key, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._places_taken = 0

    def __len__(self) -> int:
        return len(self._at)

    def at(self, key: Key) -> int | None:
        return self._at.get(key)

    def next_ms(self) -> int | None:
        """The time of the earliest deadline."""
        self._settle_top()
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Key | None:
        """The earliest deadline that has passed; it stays until it is cancelled or extended."""
        self._settle_top()
        if self._heap and self._heap[0][0] <= now_ms:
            return self._heap[0][2]
        return None

    def set(self, key: Key, at_ms: int) -> None:
        self._at[key] = at_ms
        place = self._places.get(key)
        if place is None or at_ms < place[0]:
            self._take_place(key, at_ms)
            self._drop_stale_places()

    def cancel(self, key: Key) -> None:
        """Removes the deadline, if there is one."""
        if self._at.pop(key, None) is not None:
            del self._places[key]
            self._drop_stale_places()

    def check(self) -> None:
        assert self._at.keys() == self._places.keys()
        held = {(at, number): key for at, number, key in self._heap}
        assert len(held) == len(self._heap)
        for key, place in self._places.items():
            assert held[place] == key  # invariant 1
            assert place[0] <= self._at[key]  # invariant 2
        assert len(self._heap) <= 2 * len(self._at) + STALE_PLACES_MAX  # invariant 3

    def _settle_top(self) -> None:
        """Brings the earliest deadline to the top of the heap."""
        while self._heap:
            at_ms, number, key = self._heap[0]
            if self._places.get(key) != (at_ms, number):
                heapq.heappop(self._heap)
            elif self._at[key] > at_ms:
                heapq.heappop(self._heap)
                self._take_place(key, self._at[key])
            else:
                return

    def _take_place(self, key: Key, at_ms: int) -> None:
        self._places_taken += 1
        self._places[key] = (at_ms, self._places_taken)
        heapq.heappush(self._heap, (at_ms, self._places_taken, key))

    def _drop_stale_places(self) -> None:
        if len(self._heap) > 2 * len(self._at) + STALE_PLACES_MAX:
            self._heap = [(at, number, key) for key, (at, number) in self._places.items()]
            heapq.heapify(self._heap)
