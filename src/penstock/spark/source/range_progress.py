"""Where a task stands in each of its ranges, and what it asks of which node next: pure.

A fetch asks one node for all the ranges that it leads and that are waiting. If they are more than
one reply holds, the first of two fetches takes half of them, so that two replies are on their way.
Ranges wait in the order of `RangesLeft.waiting`: one that a reply had no room for is the first of
the next fetch, and one that brought records is the last.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.fetch_reply import bytes_guessed, fetch_bytes
from penstock.spark.source.plan import ReadRange

FETCHES_PER_NODE_MAX = 2


@dataclass(slots=True, kw_only=True, eq=False)
class RangeProgress:
    wanted: ReadRange
    position: Offset
    asked_ms: int | None = None  # first asked for `position`; None: not yet
    seen_bytes: int = 0
    empty_replies: int = 0  # to the question for `position`, one after the other
    empty_since_ms: int = 0

    @property
    def is_done(self) -> bool:
        return self.position >= self.wanted.end

    def empty_ms(self, now_ms: int) -> int:
        return now_ms - self.empty_since_ms if self.empty_replies else 0

    def asked_for_ms(self, now_ms: int) -> int:
        """How long nothing has come, since it was asked for."""
        return 0 if self.asked_ms is None else now_ms - self.asked_ms

    def bytes_left(self) -> int:
        """A guess."""
        return bytes_guessed(
            self.wanted.end - self.position,
            seen_bytes=self.seen_bytes,
            seen_offsets=self.position - self.wanted.start,
        )

    def bytes_wanted(self, bytes_max: int) -> int:
        return fetch_bytes(
            left=self.wanted.end - self.position,
            seen_bytes=self.seen_bytes,
            seen_offsets=self.position - self.wanted.start,
            bytes_max=bytes_max,
        )

    def asked(self, now_ms: int) -> None:
        if self.asked_ms is None:
            self.asked_ms = now_ms

    def not_reached(self) -> None:
        self.asked_ms = None

    def moved(self, position: Offset, *, size_bytes: int = 0) -> None:
        assert position > self.position, (self, position)
        self.position = position
        self.seen_bytes += size_bytes
        self.empty_replies = 0
        self.asked_ms = None

    def not_moved(self, *, empty: bool, now_ms: int) -> None:
        if not self.empty_replies:
            self.empty_since_ms = now_ms
        self.empty_replies = self.empty_replies + 1 if empty else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFetch:
    node: NodeId
    ranges: tuple[RangeProgress, ...]
    bytes_max: int  # of the reply; each range has its own bound too


class RangesLeft:
    """The ranges of a task. One that is asked for, or paused, is not waiting."""

    def __init__(self, ranges: Iterable[ReadRange]) -> None:
        self.all = tuple(RangeProgress(wanted=one, position=one.start) for one in ranges)
        assert len({one.wanted.partition for one in self.all}) == len(self.all)
        self.waiting = deque(self.all)

    @property
    def is_done(self) -> bool:
        return all(one.is_done for one in self.all)

    def take(self, chosen: Callable[[RangeProgress], bool]) -> list[RangeProgress]:
        """Those that wait and are chosen: they wait no longer."""
        waiting, self.waiting = self.waiting, deque()
        taken: list[RangeProgress] = []
        for one in waiting:
            (taken if chosen(one) else self.waiting).append(one)
        return taken

    def wait(self, ranges: Iterable[RangeProgress]) -> None:
        """Behind all others."""
        self.waiting.extend(one for one in ranges if not one.is_done)

    def wait_first(self, ranges: Iterable[RangeProgress]) -> None:
        self.waiting.extendleft(reversed(list(ranges)))

    def next_fetch(
        self,
        leaders: Callable[[TopicPartition], NodeId | None],
        *,
        in_flight: Mapping[NodeId, int],
        bytes_max: int,
    ) -> PlannedFetch | None:
        """Takes the ranges of the next fetch, to the node with the fewest fetches in flight; None
        when no node is to be asked now.
        """
        by_node: dict[NodeId, list[RangeProgress]] = {}
        for one in self.waiting:
            node = leaders(one.wanted.partition)
            if node is not None and in_flight.get(node, 0) < FETCHES_PER_NODE_MAX:
                by_node.setdefault(node, []).append(one)
        if not by_node:
            return None
        node = min(by_node, key=lambda one: in_flight.get(one, 0))
        ranges = by_node[node]
        left = sum(one.bytes_left() for one in ranges)
        if left > bytes_max and not in_flight.get(node, 0) and len(ranges) > 1:
            ranges = ranges[: (len(ranges) + 1) // 2]
        wanted = sum(one.bytes_wanted(bytes_max) for one in ranges)
        self.take(frozenset(ranges).__contains__)
        return PlannedFetch(node=node, ranges=tuple(ranges), bytes_max=min(wanted, bytes_max))
