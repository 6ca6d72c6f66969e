"""A shard that this broker has begun to lead follows its journal to the end.

Some at a time, so that others have their turn in between; until it is done the shard decides
nothing, and its clients are told to wait.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol, TypeVar

from penstock.broker.coordinators.led_host import LedHost, Stage
from penstock.groups.records import UnreadableGroupRecord
from penstock.log.errors import CorruptLog
from penstock.log.partition_log import PartitionLog
from penstock.model.events import COORDINATOR_LOADED, COORDINATOR_UNREADABLE
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.transactions.records import UnreadableTransactionRecord
from penstock.world.event_log import tell
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)

# Some milliseconds each: batches are mostly of one record, and compaction leaves large ones.
BYTES_PER_TURN = 256 << 10
BATCHES_PER_TURN = 250
RECORDS_PER_TURN = 100


UNREADABLE = (UnreadableGroupRecord, UnreadableTransactionRecord)

JournalRecord = TypeVar("JournalRecord")
Now = TypeVar("Now", contravariant=True)
Read = TypeVar("Read", covariant=True)


class Latest(Protocol[Read]):
    """What a journal comes to: it is given the batches, and tells the records."""

    def add(self, batch: BatchView) -> None: ...

    def take(self) -> Iterator[Read]: ...


class Loading(Protocol[JournalRecord, Now]):
    """A shard that follows its journal."""

    @property
    def host(self) -> LedHost[JournalRecord]: ...

    def loaded(self, context: Now) -> None: ...


DecisionContext = TypeVar("DecisionContext")


async def load(
    led: Loading[JournalRecord, DecisionContext],
    latest: Latest[JournalRecord],
    context: Callable[[], DecisionContext],
    clock: Clock,
) -> bool:
    """Whether it is loaded: leadership may have been lost meanwhile, and the journal may be
    damaged. Then nothing is served from it; to go on would be to forget what was acked.
    """
    started_ms = clock.monotonic_ms()
    host = led.host
    end_offset = host.partition.log.end_offset
    records = 0
    try:
        await _read(host, latest)
        taking = latest.take()
        while host.stage is Stage.LOADING and (some := tuple(islice(taking, RECORDS_PER_TURN))):
            host.replay(some)
            records += len(some)
            await asyncio.sleep(0)
    except UNREADABLE as error:
        tell(logger, COORDINATOR_UNREADABLE, partition=str(host.partition.name), reason=error)
        host.end(Stage.UNREADABLE)
    if host.stage is not Stage.LOADING:
        return False
    assert host.partition.log.end_offset == end_offset, "nobody else writes to the journal"
    host.replay((), next_offset=end_offset)
    led.loaded(context())
    tell(
        logger,
        COORDINATOR_LOADED,
        partition=str(host.partition.name),
        records=records,
        took_ms=clock.monotonic_ms() - started_ms,
    )
    return True


async def _read(host: LedHost[JournalRecord], latest: Latest[JournalRecord]) -> None:
    """No checksum covers the offset of a batch itself, and a wrong one would hide what follows it:
    so each must come after the one before, and none may be left over.
    """
    log = host.partition.log
    offset, end_offset = log.start_offset, log.end_offset
    bytes_seen = 0
    while offset < end_offset and host.stage is Stage.LOADING:
        log = host.partition.log  # a replica that was moved has another one
        turn_ends_at = bytes_seen + BYTES_PER_TURN
        for number, batch in enumerate(log.batches_from(offset), 1):
            if batch.base_offset < offset and bytes_seen > 0:
                raise _out_of_order(log, bytes_seen, offset)
            latest.add(batch)
            offset = batch.next_offset
            bytes_seen += batch.size_bytes
            if bytes_seen >= turn_ends_at or number >= BATCHES_PER_TURN:
                break
        else:
            if offset != end_offset and bytes_seen < sum(one.size_bytes for one in log.segments):
                raise _out_of_order(log, bytes_seen, offset)
            offset = end_offset  # compaction has taken what lies between
        await asyncio.sleep(0)


def _out_of_order(log: PartitionLog, position: int, offset: Offset) -> CorruptLog:
    return CorruptLog(
        log.directory, position=position, reason=f"the batch there does not follow offset {offset}"
    )
