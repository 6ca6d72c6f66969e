"""How far a group is behind in a partition that has a replica here.

Each lag costs one look-up: the index leads to the batch that holds the committed offset, and of
that batch the header alone is read. So the age of the first unread record is that of its batch's
first record: exact where a group has stopped between two batches, as most do, and never too small.
"""

from penstock.groups.lag import Lag, first_unread, lag
from penstock.log.errors import CorruptData
from penstock.log.partition_log import PartitionLog
from penstock.log.reading import ReadBounds
from penstock.model.offset import Offset
from penstock.records.batch import BatchHeader
from penstock.records.errors import CorruptBatch
from penstock.records.layout import HEADER_BYTES, NO_TIMESTAMP, TimestampType
from penstock.replication.follower import Follower
from penstock.replication.replica import Replica
from penstock.world.errors import DiskError


def partition_lag(replica: Replica, committed: Offset, *, now_ms: int) -> Lag:
    start_offset, end_offset = replica.log.start_offset, known_end(replica)
    unread = first_unread(committed, start_offset=start_offset, end_offset=end_offset)
    since_ms = None
    if unread is not None:
        since_ms = batch_time_ms(replica.log, unread, until_offset=end_offset)
    return lag(
        committed,
        start_offset=start_offset,
        end_offset=end_offset,
        unread_since_ms=since_ms,
        now_ms=now_ms,
    )


def known_end(replica: Replica) -> Offset:
    """Where a partition ends for its readers. A follower hears of the high watermark late, with
    the next record, so that its log's end is nearer to the truth.
    """
    if isinstance(replica, Follower):
        return replica.log.end_offset
    return max(replica.high_watermark, replica.log.start_offset)


def batch_time_ms(log: PartitionLog, offset: Offset, *, until_offset: Offset) -> int | None:
    """When the batch began that holds `offset`, or the first after it; None when that is not known,
    be it that the disk does not tell: a lag without an age is better than none.
    """
    assert log.start_offset <= offset < until_offset <= log.end_offset, (offset, until_offset)
    try:
        found = log.read(
            ReadBounds(
                from_offset=offset,
                until_offset=until_offset,
                size_bytes_max=HEADER_BYTES,
                oversized_first=True,
            )
        )
        if found.span is None:
            return None
        header = BatchHeader(found.span.file.read_at(found.span.position, HEADER_BYTES))
    except (CorruptData, CorruptBatch, DiskError):
        return None
    by_header = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    # A compacted batch may hold another time in the place of its first record's.
    if by_header or header.delete_horizon_ms is not None:
        time_ms = header.max_timestamp
    else:
        time_ms = header.base_timestamp
    return None if time_ms == NO_TIMESTAMP else time_ms
