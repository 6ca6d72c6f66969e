"""One batch on its way to a broker: filling, sealed, sent, perhaps sent again, and at last settled.

Promises: every record's ticket is settled exactly once, with the place the record got or with why
it got none; once sealed, the bytes change only in their producer stamp. A batch that was built
elsewhere is sealed from the start, and has one ticket.
"""

from dataclasses import field
from typing import NamedTuple, Protocol

from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.records.batch import BatchHeader
from penstock.records.build import build_batch, record_bytes_max
from penstock.records.compression import Codec
from penstock.records.layout import HEADER_BYTES, MAGIC_V2
from penstock.records.record import Record


class Delivered(NamedTuple):
    """Where a record stands in the log, or the first one of a batch that was built elsewhere. The
    offset is unknown with acks=0, and for a duplicate long past.
    """

    topic: str
    partition: int
    offset: Offset | None
    timestamp_ms: int


class Ticket(Protocol):
    """What the sender of a record waits on; an asyncio Future is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Delivered, /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class PendingBatch:
    partition: TopicPartition
    created_ms: int
    deadline_ms: int
    ordinal: int  # in the order in which batches were opened; halves have that of the whole
    records: list[Record] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    size_bytes: int = HEADER_BYTES  # an upper bound while filling, the exact size once sealed
    charged_bytes: int = 0  # what the batch takes of the producer's buffer until it is settled
    data: bytearray | None = None
    built: BatchHeader | None = None  # where it was built elsewhere, and has no records here
    epoch: int | None = None
    sequence: int | None = None  # None until it is first sent, and after its epoch ended
    attempts: int = 0
    settled: bool = False

    @property
    def record_count(self) -> int:
        return len(self.records) if self.built is None else self.built.record_count

    @property
    def divisible(self) -> bool:
        """Whether what is too large can be sent as two."""
        return len(self.records) > 1

    def add(self, record: Record, ticket: Ticket, size_bytes: int) -> None:
        assert self.data is None
        self.records.append(record)
        self.tickets.append(ticket)
        self.size_bytes += size_bytes
        self.charged_bytes += size_bytes

    def seal(self, codec: Codec, level: int | None) -> None:
        """Builds and compresses the bytes; the records themselves are kept until the batch is
        settled.
        """
        if self.data is None:
            assert self.records
            self.data = build_batch(self.records, codec=codec, level=level)
            self.size_bytes = len(self.data)

    def split(self) -> tuple["PendingBatch", "PendingBatch"]:
        """Two halves of what a broker found too large, unsealed; they share the age and the
        sequence numbers.
        """
        assert self.record_count > 1
        middle = self.record_count // 2
        halves = []
        for start, end in ((0, middle), (middle, self.record_count)):
            half = PendingBatch(
                partition=self.partition,
                created_ms=self.created_ms,
                deadline_ms=self.deadline_ms,
                ordinal=self.ordinal,
            )
            for record, ticket in zip(
                self.records[start:end], self.tickets[start:end], strict=True
            ):
                half.add(record, ticket, size_bytes_max(record))
            halves.append(half)
        self.settled = True
        self.charged_bytes = 0  # the halves have taken it over
        return halves[0], halves[1]

    def succeed(self, base_offset: Offset | None, append_time_ms: int | None) -> None:
        """Tells every record's sender its place."""
        if self.settled:
            return
        self.settled = True
        topic, partition = self.partition
        if self.built is not None:
            [ticket] = self.tickets
            time_ms = self.built.max_timestamp if append_time_ms is None else append_time_ms
            if not ticket.done():
                ticket.set_result(Delivered(topic, partition, base_offset, time_ms))
            return
        for index, (record, ticket) in enumerate(zip(self.records, self.tickets, strict=True)):
            if not ticket.done():
                offset = None if base_offset is None else Offset(base_offset + index)
                timestamp_ms = record.timestamp_ms if append_time_ms is None else append_time_ms
                ticket.set_result(Delivered(topic, partition, offset, timestamp_ms))

    def fail(self, error: Exception) -> None:
        """Tells every record's sender why its record may not be in the log."""
        if self.settled:
            return
        self.settled = True
        for ticket in self.tickets:
            if not ticket.done():
                ticket.set_exception(error)


def ready_batch(
    partition: TopicPartition,
    data: bytearray,
    ticket: Ticket,
    *,
    created_ms: int,
    deadline_ms: int,
    ordinal: int,
) -> PendingBatch:
    """A batch that was built elsewhere; its one ticket is told the place of its first record."""
    header = BatchHeader(data)
    assert header.magic == MAGIC_V2, header.magic
    assert header.size_bytes == len(data), (header.size_bytes, len(data))
    assert header.record_count == header.last_offset_delta + 1 > 0, header.record_count
    return PendingBatch(
        partition=partition,
        created_ms=created_ms,
        deadline_ms=deadline_ms,
        ordinal=ordinal,
        tickets=[ticket],
        size_bytes=len(data),
        charged_bytes=len(data),
        data=data,
        built=header,
    )


def size_bytes_max(record: Record) -> int:
    """The most a record can take in a batch, before compression."""
    return record_bytes_max(record.key, record.value, record.headers)
