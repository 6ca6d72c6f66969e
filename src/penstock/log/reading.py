"""What a reader asks of a log, and what it is given.

A slice is a range of bytes of one segment's file, handed on to `sendfile` unread. Like Apache
Kafka's it may end in the middle of a batch: it begins with a whole batch, but where it ends is
counted in bytes, because finding the last whole batch would cost a walk over headers for each
fetch, and every client must cope with a cut-off batch anyway. It never reaches beyond
`until_offset`, though: what readers may not see is not sent.
"""

from dataclasses import dataclass

from penstock.model.offset import LeaderEpoch, Offset
from penstock.world.ports import FileRange


@dataclass(slots=True, kw_only=True)
class ReadBounds:
    """How much one partition may add to one fetch reply."""

    from_offset: Offset
    until_offset: Offset  # exclusive: the high watermark, or the last stable offset
    size_bytes_max: int
    oversized_first: bool  # a reader must get past a batch larger than its buffer

    def __post_init__(self) -> None:
        assert self.from_offset <= self.until_offset, (self.from_offset, self.until_offset)
        assert self.size_bytes_max >= 0, self.size_bytes_max


@dataclass(slots=True, kw_only=True)
class LogSlice:
    """Bytes of one segment: one whole batch at least, or nothing (`span` is None).

    `span.file` stays readable for as long as the slice is held, even if its segment is deleted
    meanwhile: the log has the file held (`File.hold`) before its name goes, and never closes it.
    """

    span: FileRange | None
    segment_base_offset: Offset
    position: int  # in that segment: what lies between two slices is known without reading

    @property
    def byte_count(self) -> int:
        return 0 if self.span is None else self.span.byte_count


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOffset:
    """A record found by its time."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch | None
