"""What a fetch reply means for a task that reads a range: pure.

A range ends where its end is, not where records end: compaction, markers and aborted transactions
leave gaps, also at the end of the log. A gap there looks like an empty reply while the broker says
that the end of the range may be read. An empty reply may also be a broker that is busy, or that
waits for a remote store: only when there are none but empty ones for seconds, a gap is believed.
A reply about several partitions is also empty for those that it had no room for.
"""

from dataclasses import dataclass

from penstock.client.consume.isolation import Isolation
from penstock.client.network.errors import RETRIABLE, STALE_METADATA, error_code
from penstock.model.error import ErrorCode
from penstock.model.limit import KIB
from penstock.model.offset import Offset
from penstock.records.batch import whole_batches
from penstock.wire.messages.fetch import PartitionData

EMPTY_REPLIES_BELIEVED = 2
EMPTY_MS_BELIEVED = 5_000
RECORD_BYTES_GUESSED = KIB
FETCH_BYTES_MIN = 256 * KIB


@dataclass(frozen=True, slots=True)
class Brought:
    """Whole batches; what follows them is at `next_position`."""

    next_position: Offset


@dataclass(frozen=True, slots=True)
class Gap:
    """There is nothing more up to the end of the range."""


@dataclass(frozen=True, slots=True)
class NotReached:
    """The reply was filled with records of other partitions."""


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The log has no such offset (any more)."""


@dataclass(frozen=True, slots=True)
class Again:
    reason: str
    stale_metadata: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Hopeless:
    code: ErrorCode


Answer = Brought | Gap | NotReached | OutOfRange | Again | Hopeless


def judged(
    told: PartitionData | None,
    *,
    position: Offset,
    end: Offset,
    isolation: Isolation,
    empty_before: int,
    empty_ms: int,
    others_brought: bool = False,
) -> Answer:
    """`empty_before` counts the empty replies to the same question right before this one, the first
    of which came `empty_ms` ago. `others_brought`: the same reply has records of other partitions.
    """
    if told is None:
        return Again("the broker said nothing of the partition", stale_metadata=True)
    code = error_code(told.error_code)
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange()
    if code != ErrorCode.NONE:
        if code in RETRIABLE:
            return Again(code.name, stale_metadata=code in STALE_METADATA)
        return Hopeless(code)
    next_position = position
    records = told.records
    if records is not None:
        assert isinstance(records, memoryview)
        for batch in whole_batches(records):
            next_position = max(next_position, batch.next_offset)
    if next_position > position:
        return Brought(next_position)
    committed = isolation is Isolation.READ_COMMITTED
    readable = told.last_stable_offset if committed else told.high_watermark
    if readable < end:
        return Again(f"the log can be read up to offset {readable} only")
    if others_brought:
        return NotReached()
    if empty_before + 1 >= EMPTY_REPLIES_BELIEVED and empty_ms >= EMPTY_MS_BELIEVED:
        return Gap()
    return Again("an empty reply", empty=True)


def fetch_bytes(*, left: int, seen_bytes: int, seen_offsets: int, bytes_max: int) -> int:
    """How much to ask for, so that a small range does not bring a large one along."""
    guessed = bytes_guessed(left, seen_bytes=seen_bytes, seen_offsets=seen_offsets)
    return min(bytes_max, max(FETCH_BYTES_MIN, guessed * 9 // 8))


def bytes_guessed(left: int, *, seen_bytes: int, seen_offsets: int) -> int:
    """How many bytes so many offsets have, if they are like those that were read."""
    each = RECORD_BYTES_GUESSED if seen_offsets == 0 else seen_bytes // seen_offsets + 1
    return left * each
