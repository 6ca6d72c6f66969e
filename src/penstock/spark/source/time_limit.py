"""Ends for so many records that are of one time in all partitions: `maxOffsetsPerTriggerBy`.

Shares in proportion to the backlog (`plan.limited`) let partitions drift apart in time: of ten days
in six partitions, one may be an hour ahead of another in the middle. A watermark follows the one
that is ahead, and Spark drops what is late in the others without a word. So the records before a
time T are taken, and T is as late as the limit allows.

Pure but for `since`, which asks brokers for the first record at or after a time.
"""

from collections.abc import Callable, Mapping

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.plan import Positions, limited, waiting
from penstock.spark.source.positions import Offsets

Since = Callable[[int], Mapping[TopicPartition, Offset | None]]

EXACT_MS = 1_000  # T is found to that
ENOUGH = 0.9  # of the limit
QUESTIONS_MAX = 64  # half an interval each: more than any time in milliseconds needs


def limited_by_time(
    begin: Positions, end: Positions, *, records_max: int, since: Since, until_ms: int
) -> Offsets:
    """`until_ms` is the present: what is dated later counts as of a time that has not come.

    Where more than the limit is of one second, or of the future, it is shared out by the backlog:
    a batch always gets on.
    """
    assert records_max > 0
    fits, fits_ms = dict(begin), 0
    beyond, beyond_ms = dict(end), until_ms
    for _ in range(QUESTIONS_MAX):
        enough = waiting(begin, fits) >= ENOUGH * records_max
        if enough or beyond_ms - fits_ms <= EXACT_MS:
            break
        middle_ms = (fits_ms + beyond_ms) // 2
        ends = _before(since(middle_ms), begin, end)
        if waiting(begin, ends) <= records_max:
            fits, fits_ms = ends, middle_ms
        else:
            beyond, beyond_ms = ends, middle_ms
    if waiting(begin, fits) == 0:
        return limited(begin, beyond, records_max=records_max)
    return fits


def _before(
    firsts: Mapping[TopicPartition, Offset | None], begin: Positions, end: Positions
) -> Offsets:
    """Up to the first record of a time, or all where no record is that young."""
    found: Offsets = {}
    for partition, last in end.items():
        first = firsts.get(partition)
        until = last if first is None else min(first, last)
        found[partition] = Offset(max(begin[partition], until))
    return found
