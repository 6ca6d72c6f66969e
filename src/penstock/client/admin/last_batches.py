"""The last batches of partitions: how they were compressed, and what their producers stamped.

A fetch that asks for one byte is answered with the whole batch that holds its offset, and no more.
So batches are read backwards, one request for each, from the end of a log.
"""

from collections.abc import Mapping

from penstock.client.consume.fetch_request import version_bound
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.records.batch import BatchView, whole_batches
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatch
from penstock.records.layout import TimestampType
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

BATCHES_DEFAULT = 3
MARKERS_MAX = 3  # so many markers of transactions are passed over


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Which offsets a log holds: [start, end)."""

    start_offset: Offset
    end_offset: Offset

    @property
    def count(self) -> int:
        return max(0, self.end_offset - self.start_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    base_offset: Offset
    codec: Codec
    producer_id: int | None  # None: its producer was not idempotent
    size_bytes: int
    timestamp_ms_max: int
    timestamp_type: TimestampType


async def last_batches(
    cluster: Cluster,
    place: TopicPartition,
    log: LogRange,
    *,
    count: int = BATCHES_DEFAULT,
) -> tuple[StoredBatch, ...]:
    """Up to `count` batches of records, the last one first. Refused where it can't be read."""
    found: list[StoredBatch] = []
    position = log.end_offset - 1
    reads = 0
    while position >= log.start_offset and len(found) < count and reads < count + MARKERS_MAX:
        reads += 1
        batches = await batches_from(cluster, place, Offset(position), bytes_max=1)
        if not batches or batches[0].base_offset > position:
            break  # compaction left nothing here
        batch = batches[0]
        if not batch.is_control:
            found.append(_stored(batch))
        position = batch.base_offset - 1
    return tuple(found)


async def batches_from(
    cluster: Cluster, place: TopicPartition, offset: Offset, *, bytes_max: int
) -> list[BatchView]:
    """The batch that holds an offset, whatever its size, and those after it that fit into so many
    bytes. Refused where the partition can't be read.
    """
    view = cluster.view
    leader = view.leader_of(place)
    if leader is None:
        raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, str(place), "it has no leader")
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=bytes_max,
        topics=[
            FetchTopic(
                topic=place.topic,
                topic_id=view.topic_id(place.topic),
                partitions=[
                    FetchPartition(
                        partition=place.partition,
                        fetch_offset=offset,
                        partition_max_bytes=bytes_max,
                    )
                ],
            )
        ],
    )
    channel = await cluster.channel(leader, Lane.FETCH)
    version = channel.version_for(FetchRequest, at_most=version_bound(request, view))
    reply = await channel.ask(
        request, FetchResponse, timeout_ms=cluster.rules.request_ms_max, version=version
    )
    _refuse(reply.error_code, place)
    for topic in reply.responses:
        for told in topic.partitions:
            _refuse(told.error_code, place)
            records = told.records
            assert records is None or isinstance(records, memoryview)
            return _whole(records, offset)
    return []


def _whole(records: memoryview | None, offset: Offset) -> list[BatchView]:
    found = []
    try:
        for batch in whole_batches(records if records is not None else memoryview(b"")):
            if batch.last_offset >= offset:
                found.append(batch)
    except CorruptBatch:
        pass  # what can't be read shows nothing
    return found


def _stored(batch: BatchView) -> StoredBatch:
    return StoredBatch(
        base_offset=batch.base_offset,
        codec=batch.codec,
        producer_id=None if batch.producer_id < 0 else batch.producer_id,
        size_bytes=batch.size_bytes,
        timestamp_ms_max=batch.max_timestamp,
        timestamp_type=batch.timestamp_type,
    )


def _refuse(number: int, place: TopicPartition) -> None:
    code = error_code(number)
    if code != ErrorCode.NONE:
        raise Refused(code, str(place))


def ranges(
    starts: Mapping[TopicPartition, Offset], ends: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, LogRange]:
    """Of the partitions whose start and end are both known."""
    return {
        place: LogRange(start_offset=starts[place], end_offset=ends[place])
        for place in ends
        if place in starts
    }
