"""How a transaction ended, by what stands in a partition that it wrote to.

A coordinator knows only the last transaction of each transactional id, and of that nothing once the
id was taken over or has expired. The partitions keep all of them: after the records of a producer
id comes the marker that ends its transaction there, and it is the same in every partition.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from penstock.client.consume.cursor import Cursor, Reset
from penstock.client.consume.fetch_request import FetchRules, fetch_request, version_bound
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import (
    RETRIABLE,
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    Unreachable,
    error_code,
)
from penstock.client.produce.prepared_transaction import Ending
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import MIB
from penstock.model.offset import Offset
from penstock.records.batch import BatchView, whole_batches
from penstock.records.control import read_end_transaction
from penstock.records.iterate import records_of
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

WAIT_MS = 30_000
SHORTER_MS_BELIEVED = 5_000  # a new leader may know a high watermark that is behind, for a moment
FETCH_BYTES = 4 * MIB
PASSING = (ConnectionLost, TimedOut, Unreachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A record batch of a transaction: where it stands, and who wrote it."""

    partition: TopicPartition
    offset: Offset
    producer_id: int
    epoch: int


async def ending_of(cluster: Cluster, written: Written, *, wait_ms: int = WAIT_MS) -> Ending:
    """Reads on from the batch to the marker that ends its transaction, or to the end of the log.

    ClientError when the brokers do not answer for `wait_ms`. A log that ends before the batch, or a
    topic that is unknown, is asked for again before that is believed.
    """
    now_ms = cluster.clock.monotonic_ms
    believed_ms = now_ms() + min(SHORTER_MS_BELIEVED, wait_ms)
    deadline_ms = now_ms() + wait_ms  # without progress
    search = Search.of(written)
    while True:
        try:
            told = await _fetch(cluster, written.partition, search.position)
            before = search.position
            for batch in _batches(told):
                found = search.look_at(batch)
                if found is not None:
                    return found
            if search.position > before:
                deadline_ms = now_ms() + wait_ms
                continue
            if search.begun and search.position >= told.high_watermark:
                return Ending.OPEN
            # Nothing to read: behind a gap at the end of the log, or not replicated far enough.
            if now_ms() >= (deadline_ms if search.begun else believed_ms):
                return Ending.OPEN if search.begun else Ending.UNKNOWN
            await asyncio.sleep(cluster.rules.backoff_ms / 1000)
            await cluster.refresh((written.partition.topic,))
        except ClientError as error:
            code = error.code if isinstance(error, Refused) else None
            is_gone = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code == ErrorCode.OFFSET_OUT_OF_RANGE or (is_gone and now_ms() >= believed_ms):
                return Ending.UNKNOWN
            passes = isinstance(error, PASSING) or is_gone or code in RETRIABLE
            if not passes or now_ms() >= deadline_ms:
                raise
            await asyncio.sleep(cluster.rules.backoff_ms / 1000)
            with suppress(ClientError):
                await cluster.refresh((written.partition.topic,))


@dataclass(slots=True)
class Search:
    """Looks at batch after batch, from the one that is known on. Pure."""

    written: Written
    position: Offset  # what is to be read next
    begun: bool = False  # the batch that is known has been seen

    @classmethod
    def of(cls, written: Written) -> "Search":
        return cls(written, position=written.offset)

    def look_at(self, batch: BatchView) -> Ending | None:
        written = self.written
        self.position = max(self.position, batch.next_offset)
        if not self.begun:
            # Another one in its place: it was compacted away, or this is a topic made anew.
            self.begun = (
                batch.base_offset <= written.offset <= batch.last_offset
                and batch.is_transactional
                and not batch.is_control
                and (batch.producer_id, batch.producer_epoch)
                == (written.producer_id, written.epoch)
            )
            return None if self.begun else Ending.UNKNOWN
        # Of any epoch: whoever ends what another one wrote has bumped it.
        if batch.is_control and batch.producer_id == written.producer_id:
            for record in records_of(batch):
                marker = read_end_transaction(record)
                if marker is not None:
                    return Ending.COMMITTED if marker.committed else Ending.ABORTED
        return None


def _batches(told: PartitionData) -> Iterator[BatchView]:
    if told.records is not None:
        assert isinstance(told.records, memoryview)
        yield from whole_batches(told.records)


async def _fetch(cluster: Cluster, partition: TopicPartition, position: Offset) -> PartitionData:
    """Committed or not; Refused where the partition has no such offset, or the broker no such
    partition.
    """
    view = await cluster.need((partition.topic,))
    leader = view.leader_of(partition)
    if leader is None:
        known = view.partition(partition) is not None
        code = ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Refused(code, str(partition))
    rules = FetchRules(
        wait_ms_max=0, bytes_min=0, bytes_max=FETCH_BYTES, partition_bytes_max=FETCH_BYTES
    )
    cursor = Cursor(partition=partition, fetch_position=position, look_up=Reset.NONE)
    request, _ = fetch_request([cursor], view, rules)
    channel = await cluster.channel(leader, Lane.FETCH)
    reply = await channel.ask(
        request,
        FetchResponse,
        timeout_ms=cluster.rules.request_ms_max,
        version=channel.version_for(FetchRequest, at_most=version_bound(request, view)),
    )
    code = error_code(reply.error_code)
    for topic in reply.responses:
        for told in topic.partitions:
            code = error_code(told.error_code)
            if code == ErrorCode.NONE:
                return told
    if code == ErrorCode.NONE:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    raise Refused(code, f"{partition} at offset {position}")
