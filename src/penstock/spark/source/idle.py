"""How often a stream that has nothing to read asks the brokers: pure.

Spark asks its sources again 10 ms after they had nothing. A question costs the broker and the
driver about a millisecond each, so an idle query would take a good part of a core. What is asked
seldom is late by that much: a record by OFFSETS_MS at most, a partition or topic that appears by
LAYOUT_MS. Whatever comes is judged with a layout of its own: none is taken for what it is not.
"""

from dataclasses import dataclass

from penstock.spark.source.positions import Offsets

OFFSETS_MS = 50
LAYOUT_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """There was nothing, or too little, to read from `start` to `end`."""

    start: Offsets
    end: Offsets
    log_end: Offsets  # as the brokers said it: before `end` where a partition is held
    layout_ms: int  # when the partitions were looked up
    asked_ms: int  # when the ends were

    def rest_ms(self, now_ms: int) -> int:
        """How long not to ask."""
        return min(OFFSETS_MS, max(0, self.asked_ms + OFFSETS_MS - now_ms))

    def layout_is_known(self, start: Offsets, now_ms: int) -> bool:
        """Whether it is enough to look at the ends: nothing waits, and the layout is young."""
        return self.start == self.end == start and now_ms - self.layout_ms < LAYOUT_MS
