"""How far a group is behind in a partition that has a replica here.

The age of the first unread record is that of its batch's first record: exact where a group has
stopped between two batches, as most do, and never too small. The index leads to the batch that
holds the committed offset, and of that batch the header alone is read. Markers of transactions are
no records, so the look goes on to the next batch. It passes over aborted transactions too where
that is cheap, in the last segment: whoever reads all records, also aborted ones, is told an age
that is too small there. After WALK_MAX batches it ends, with the time of the last one.
"""

from penstock.log.errors import CorruptData
from penstock.log.partition_log import PartitionLog
from penstock.log.reading import ReadBounds
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.records.batch import BatchHeader
from penstock.records.errors import CorruptBatch
from penstock.records.layout import HEADER_BYTES, NO_TIMESTAMP, TimestampType
from penstock.replication.follower import Follower
from penstock.replication.replica import Replica
from penstock.world.errors import DiskError

WALK_MAX = 32  # batches that are looked at for one age


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """What is to be read from an offset on."""

    has_records: bool  # no: nothing but markers and aborted records
    since_ms: int | None  # the time of the first record; None where it has none, or is not known
    is_settled: bool = False  # the same is found whenever somebody looks there again


UNKNOWN = Unread(has_records=True, since_ms=None)


def known_end(replica: Replica) -> Offset:
    """Where a partition ends for its readers. A follower hears of the high watermark late, with
    the next record, so that its log's end is nearer to the truth.
    """
    if isinstance(replica, Follower):
        return replica.log.end_offset
    return max(replica.high_watermark, replica.log.start_offset)


def unread_since_ms(unread: Unread, *, now_ms: int) -> int | None:
    """As `lag` takes it: what is not to be read waits for nobody, and is as young as can be."""
    return unread.since_ms if unread.has_records else now_ms


def unread_from(replica: Replica, offset: Offset, *, until_offset: Offset) -> Unread:
    """A lag without an age is better than none: what the disk does not tell is not known."""
    log = replica.log
    assert log.start_offset <= offset < until_offset <= log.end_offset, (offset, until_offset)
    try:
        header = _first_to_read(log, offset, until_offset=until_offset)
    except (CorruptData, CorruptBatch, DiskError):
        return UNKNOWN
    if header is None:
        return Unread(has_records=False, since_ms=None)
    return Unread(
        has_records=True,
        since_ms=_begun_ms(header),
        # A transaction that is not decided yet may be aborted.
        is_settled=not header.is_transactional or header.base_offset < replica.last_stable_offset,
    )


def _first_to_read(
    log: PartitionLog, offset: Offset, *, until_offset: Offset
) -> BatchHeader | None:
    header = None
    for _ in range(WALK_MAX):
        found = log.read(
            ReadBounds(
                from_offset=offset,
                until_offset=until_offset,
                size_bytes_max=HEADER_BYTES,
                oversized_first=True,
            )
        )
        if found.span is None:
            return None  # all of it has been compacted away
        header = BatchHeader(found.span.file.read_at(found.span.position, HEADER_BYTES))
        if not header.is_control and not _is_aborted(log, header):
            return header
        if header.next_offset <= offset:
            raise CorruptBatch(f"a batch that ends at {header.next_offset}, below {offset}")
        offset = header.next_offset
        if offset >= until_offset:
            return None
    return header


def _is_aborted(log: PartitionLog, header: BatchHeader) -> bool:
    if not header.is_transactional or header.base_offset < log.segments[-1].base_offset:
        return False
    return any(
        one.producer_id == header.producer_id and one.first_offset <= header.base_offset
        for one in log.aborted_within(
            from_offset=header.base_offset, until_offset=header.next_offset
        )
    )


def _begun_ms(header: BatchHeader) -> int | None:
    by_header = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    # A compacted batch may hold another time in the place of its first record's.
    if by_header or header.delete_horizon_ms is not None:
        time_ms = header.max_timestamp
    else:
        time_ms = header.base_timestamp
    return None if time_ms == NO_TIMESTAMP else time_ms
