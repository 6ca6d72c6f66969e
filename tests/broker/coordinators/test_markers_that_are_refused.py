"""A marker that a partition does not take is tried again, seldom, and told once."""

import asyncio
import logging

import pytest

from penstock.broker.coordinators.led_transactions import LedTransactions
from penstock.broker.coordinators.marker_sending import MarkerSending
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.sim.loop import SimLoop
from penstock.transactions.markers import MarkersWritten, SendMarkers

HOUR_SECONDS = 3_600
PLACE = TopicPartition("orders", 0)
MARKERS = SendMarkers(
    transactional_id="billing",
    number=1,
    producer_id=ProducerId(7),
    producer_epoch=ProducerEpoch(0),
    coordinator_epoch=0,
    commit=False,
    partitions=(PLACE,),
    transaction_version=2,
)


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_it_is_tried_again_with_growing_pauses_and_told_once(
    led: LedTransactions, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[TopicPartition] = []
    reported: list[MarkersWritten] = []
    is_refused = True

    def write(name: TopicPartition, _: object) -> ErrorCode:
        tried.append(name)
        # A partition that is gone counts as told.
        return code if is_refused else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def report(_: object, written: MarkersWritten) -> bool:
        reported.append(written)
        return True

    async def wait_for_hours() -> None:
        nonlocal is_refused
        sending = MarkerSending(write=write, report=report)
        running = asyncio.create_task(sending.run())
        sending.send(led, MARKERS)
        sending.flush()
        await asyncio.sleep(HOUR_SECONDS)
        assert 2 < len(tried) <= HOUR_SECONDS
        assert not reported
        is_refused = False
        await asyncio.sleep(HOUR_SECONDS)
        running.cancel()

    loop = SimLoop()  # type: ignore[abstract]
    with caplog.at_level(logging.WARNING):
        loop.run_until_complete(wait_for_hours())
    loop.close()
    assert [written.partitions for written in reported] == [(PLACE,)]
    [told] = caplog.messages
    assert told == f"marker transactional_id=billing partition=orders-0 refused={code.name}"


def test_a_report_that_the_journal_does_not_take_is_made_again_later(led: LedTransactions) -> None:
    """Nothing else would ever have its turn if it were made again at once."""
    reported: list[MarkersWritten] = []
    disk_is_full = True

    def report(_: object, written: MarkersWritten) -> bool:
        reported.append(written)
        return not disk_is_full

    async def wait_for_room() -> None:
        nonlocal disk_is_full
        sending = MarkerSending(
            write=lambda *_: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, report=report
        )
        running = asyncio.create_task(sending.run())
        sending.send(led, MARKERS)
        sending.flush()
        await asyncio.sleep(HOUR_SECONDS)
        assert 2 < len(reported) <= HOUR_SECONDS
        disk_is_full = False
        reported.clear()
        await asyncio.sleep(HOUR_SECONDS)
        running.cancel()

    loop = SimLoop()  # type: ignore[abstract]
    loop.run_until_complete(wait_for_room())
    loop.close()
    assert [written.partitions for written in reported] == [(PLACE,)]
