"""What a reader asks of a log, and what it gets.

A slice is a range of bytes of one segment's file, passed to `sendfile` unread. As in Apache Kafka
it may end in the middle of a batch: it begins with a whole batch, but its end is counted in bytes,
because finding the last whole batch would cost a walk over headers for each fetch, and every client
must handle a truncated batch anyway. Followers ask for `whole_batches`: they write what they get as
it is, and most of their fetches take all that there is. A slice never extends beyond
`until_offset`: what readers may not see is not sent.
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.world.ports import FileRange


class ReadBounds:
    """How much one partition may add to one fetch reply.

    Built per partition of a fetch, as `LogSlice` is: an `__init__` that is written out is compiled,
    that of a dataclass is not.
    """

    __slots__ = (
        "from_offset", "oversized_first", "size_bytes_max", "until_offset", "whole_batches",
    )  # fmt: skip

    def __init__(
        self,
        *,
        from_offset: Offset,
        until_offset: Offset,
        size_bytes_max: int,
        oversized_first: bool,
        whole_batches: bool = False,
    ) -> None:
        assert from_offset <= until_offset, (from_offset, until_offset)
        assert size_bytes_max >= 0, size_bytes_max
        self.from_offset = from_offset
        self.until_offset = until_offset  # exclusive: the high watermark or last stable offset
        self.size_bytes_max = size_bytes_max
        self.oversized_first = oversized_first  # a reader must get past a batch beyond its buffer
        self.whole_batches = whole_batches  # the slice ends where a batch does


class LogSlice:
    """Bytes of one segment: one whole batch at least, or nothing (`span` is None).

    `span.file` stays readable for as long as the slice is held, even if its segment is deleted
    meanwhile: the log holds the file (`File.hold`) before it is renamed, and never closes it.
    """

    __slots__ = ("position", "segment_base_offset", "span")

    def __init__(
        self, *, span: FileRange | None, segment_base_offset: Offset, position: int
    ) -> None:
        self.span = span
        self.segment_base_offset = segment_base_offset
        # In that segment: what lies between two slices is known without reading.
        self.position = position

    @property
    def byte_count(self) -> int:
        return 0 if self.span is None else self.span.byte_count


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOffset:
    """A record found by its time."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch | None
