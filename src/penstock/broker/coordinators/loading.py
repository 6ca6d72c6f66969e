"""A shard that this broker has begun to lead follows its journal to the end.

Some at a time, so that others have their turn in between; until it is done the shard decides
nothing, and its clients are told to wait.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import islice

from penstock.broker.coordinators.led_shard import LedShard, Stage
from penstock.groups.records import UnreadableGroupRecord
from penstock.groups.replay import LatestRecords
from penstock.groups.situation import Situation
from penstock.log.partition_log import PartitionLog
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)

BYTES_PER_TURN = 1 << 20
RECORDS_PER_TURN = 2000


async def load(led: LedShard, situation: Callable[[], Situation], clock: Clock) -> bool:
    """Whether it is loaded: leadership may have been lost meanwhile, and the journal may be
    damaged. Then nothing is served from it; to go on would be to forget what was acked.
    """
    started_ms = clock.monotonic_ms()
    log = led.partition.log
    end_offset = log.end_offset
    records = 0
    try:
        latest = await _latest(led, log)
        taking = latest.take()
        while led.stage is Stage.LOADING and (some := tuple(islice(taking, RECORDS_PER_TURN))):
            led.replay(some)
            records += len(some)
            await asyncio.sleep(0)
    except UnreadableGroupRecord as trouble:
        logger.critical("coordinator partition=%s unreadable=%s", led.partition.name, trouble)
        led.end(Stage.UNREADABLE)
    if led.stage is not Stage.LOADING:
        return False
    assert log.end_offset == end_offset, "nobody else writes to the journal"
    led.replay((), next_offset=end_offset)
    led.loaded(situation())
    logger.info(
        "coordinator partition=%s loaded groups=%d offsets=%d records=%d took_ms=%d",
        led.partition.name, len(led.shard.groups), led.shard.offsets.count, records,
        clock.monotonic_ms() - started_ms,
    )  # fmt: skip
    return True


async def _latest(led: LedShard, log: PartitionLog) -> LatestRecords:
    latest = LatestRecords()
    offset, end_offset = log.start_offset, log.end_offset
    while offset < end_offset and led.stage is Stage.LOADING:
        bytes_read = 0
        for batch in log.batches_from(offset):
            latest.add(batch)
            offset = batch.next_offset
            bytes_read += batch.size_bytes
            if bytes_read >= BYTES_PER_TURN:
                break
        else:
            offset = end_offset  # compaction has taken what lies between
        await asyncio.sleep(0)
    return latest
