"""Which letters of a partition a replay has to write, and what it may then call done.

A group's committed offset says how far all letters are done with. A replay that is choosy leaves
some behind; the offset then stays at the first of them. Receipts tell which letters were replayed,
below the offset too: a group's offset expires sooner than letters do, and receipts are kept longer
than the letters they are of. Letters, receipts and offsets are written in one transaction, so that
whoever goes on after a crash knows just what is in the source topics.

    1. Whatever lies below `done_until` is done with, and nothing that was left is.
    2. `receipts` are in order, apart from each other, and hold nothing that waits.
    3. `unsettled` holds what was replayed since the last `settle`; it is in order too.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.model.offset import Offset
from penstock.spark.dead_letter_headers import Ranges


class Settled(NamedTuple):
    """What goes into the transaction beside the letters."""

    offset: Offset  # the group's
    receipt: Ranges  # empty: nothing was replayed


@dataclass(slots=True, kw_only=True)
class PartitionReplay:
    done_until: Offset
    receipts: Ranges = ()
    position: Offset = field(init=False)  # after the last letter that was looked at
    first_left: Offset | None = field(init=False, default=None)
    unsettled: list[range] = field(init=False, default_factory=list)
    _joins: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.position = self.done_until
        self.receipts = merged(self.receipts)

    def is_done(self, offset: int) -> bool:
        index = bisect_right(self.receipts, offset, key=lambda one: one.start)
        return offset < self.done_until or (index > 0 and offset in self.receipts[index - 1])

    def replayed(self, offset: int) -> None:
        """The letter is in the transaction."""
        assert offset >= self.position and not self.is_done(offset), (offset, self)
        if self._joins and self.unsettled:
            # Between this letter and the one before it there is nothing that could wait.
            self.unsettled[-1] = range(self.unsettled[-1].start, offset + 1)
        else:
            self.unsettled.append(range(offset, offset + 1))
        self._joins = True
        self.position = Offset(offset + 1)

    def left(self, offset: int) -> None:
        """The letter waits on."""
        assert offset >= self.position and not self.is_done(offset), (offset, self)
        if self.first_left is None:
            self.first_left = Offset(offset)
        self._joins = False
        self.position = Offset(offset + 1)

    def reached(self, position: Offset) -> None:
        """There is no letter up to here that was not looked at."""
        self.position = max(self.position, position)

    def settle(self) -> Settled:
        """What is true once the transaction is committed; it must be, or all of this is void."""
        offset = self.position if self.first_left is None else self.first_left
        settled = Settled(offset, tuple(self.unsettled))
        self.done_until = settled.offset
        self.unsettled = []
        self._joins = False
        self.check()
        return settled

    def check(self) -> None:
        assert self.done_until <= self.position, "invariant 1"
        assert self.first_left is None or self.done_until <= self.first_left, "invariant 1"
        assert self.receipts == merged(self.receipts), "invariant 2"
        assert self.unsettled == list(merged(self.unsettled)), "invariant 3"


def merged(ranges: Iterable[range]) -> Ranges:
    """In order, and those that touch each other as one."""
    found: list[range] = []
    for one in sorted(ranges, key=lambda one: one.start):
        if found and one.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, one.stop))
        else:
            found.append(one)
    return tuple(found)
