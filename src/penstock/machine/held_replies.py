"""Replies that wait for the watermark, in the order of their decisions.

Invariants:
1. Held replies are ordered by the offset they wait for.
2. Each waits for an offset beyond the watermark.
3. An expired reply has been answered already; it stays because its decision may still commit, and
   its effects are then carried out.
4. Every reply that is not answered yet has its deadline in `_deadlines`, which may hold others too.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from heapq import heappop, heappush
from operator import itemgetter
from typing import Generic, TypeVar

from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset

Reply = TypeVar("Reply")


class NotDone(Enum):
    """Why there is no reply. The shell maps it to an error code of the protocol."""

    APPEND_FAILED = "the journal could not store the records; nothing was changed"
    TOO_LARGE = "the records are more than one batch may hold; nothing was changed"
    TIMED_OUT = "the deadline passed; the records may still commit"
    LEADERSHIP_LOST = "another node leads now; the records may or may not commit"
    LOADING = "this node has just become leader and is not up to date yet"
    FULL = "too many replies are waiting already"


Answer = Callable[[Reply | NotDone], None]


@dataclass(slots=True, kw_only=True)
class Held(Generic[Reply]):
    """A reply that may leave once the watermark reaches `until_offset`."""

    until_offset: Offset
    deadline_ms: int
    reply: Reply
    effects: tuple[object, ...]
    answer: Answer[Reply] | None  # None once it has answered


@dataclass(slots=True, kw_only=True)
class Expired(Generic[Reply]):
    """What is owed for a reply whose deadline has passed."""

    answer: Answer[Reply]
    effects: tuple[object, ...]  # not carried out yet, and perhaps never


class HeldReplies(Generic[Reply]):
    """The queue of held replies; `release`, `expire` and `fail` take replies out of it."""

    def __init__(self) -> None:
        self._waiting: deque[Held[Reply]] = deque()
        self._held_count = 0  # ever: the number of the next one
        self._deadlines: list[tuple[int, int, Held[Reply]]] = []  # a heap, by time and number

    def __len__(self) -> int:
        return len(self._waiting)

    def next_deadline_ms(self) -> int | None:
        self._forget_answered()
        return self._deadlines[0][0] if self._deadlines else None

    def hold(self, held: Held[Reply]) -> None:
        assert not self._waiting or self._waiting[-1].until_offset <= held.until_offset
        self._waiting.append(held)
        heappush(self._deadlines, (held.deadline_ms, self._held_count, held))
        self._held_count += 1

    def release(self, watermark: Offset) -> list[Held[Reply]]:
        """Takes out, in order, the replies that this watermark releases."""
        released = []
        while self._waiting and self._waiting[0].until_offset <= watermark:
            released.append(self._waiting.popleft())
        return released

    def expire(self, now_ms: int) -> list[Expired[Reply]]:
        """The replies whose deadline has passed, in order. Their effects stay (invariant 3)."""
        expired: list[tuple[int, Expired[Reply]]] = []
        while (next_ms := self.next_deadline_ms()) is not None and next_ms <= now_ms:
            _, number, held = heappop(self._deadlines)
            assert held.answer is not None
            expired.append((number, Expired(answer=held.answer, effects=held.effects)))
            held.answer = None
        return [one for _, one in sorted(expired, key=itemgetter(0))]

    def fail(self) -> list[Answer[Reply]]:
        """Drops everything, effects included; returns the replies that are not answered yet, in
        order.
        """
        owed = [held.answer for held in self._waiting if held.answer is not None]
        self._waiting.clear()
        self._deadlines.clear()
        return owed

    def check(self, watermark: Offset) -> None:
        last = watermark
        for held in self._waiting:
            assert held.until_offset >= last, (held, last)  # invariant 1
            assert held.until_offset > watermark, (held, watermark)  # invariant 2
            last = held.until_offset
        noted = {id(held) for _, _, held in self._deadlines}
        owed = {id(held) for held in self._waiting if held.answer is not None}
        assert owed <= noted  # invariant 4

    def _forget_answered(self) -> None:
        """Takes off the top what waits no more: it was released, or has expired."""
        first_number = self._held_count - len(self._waiting)
        while self._deadlines:
            _, number, held = self._deadlines[0]
            if number >= first_number and held.answer is not None:
                return
            heappop(self._deadlines)
