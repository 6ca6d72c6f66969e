"""However many markers there are to be written, others have their turn in between."""

import asyncio

import pytest

from penstock.broker.coordinators.led_transactions import LedTransactions
from penstock.broker.coordinators.marker_sending import MARKERS_PER_TURN, MarkerSending
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.replication.marker import Marker
from penstock.transactions.markers import MarkersWritten, SendMarkers

MANY = 10 * MARKERS_PER_TURN


def decided(number: int, partition_count: int) -> SendMarkers:
    return SendMarkers(
        transactional_id=f"t{number}",
        number=number,
        producer_id=ProducerId(number),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        commit=True,
        partitions=tuple(TopicPartition("orders", index) for index in range(partition_count)),
        transaction_version=2,
    )


@pytest.mark.parametrize(
    "decisions",
    [[decided(1, MANY)], [decided(number, 1) for number in range(MANY)]],
    ids=["one transaction", "many transactions"],
)
def test_many_markers_are_written_in_turns(
    led: LedTransactions, decisions: list[SendMarkers]
) -> None:
    written: list[tuple[ProducerId, TopicPartition]] = []
    reported: list[MarkersWritten] = []

    def write(name: TopicPartition, marker: Marker) -> ErrorCode:
        written.append((marker.producer_id, name))
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # one that is gone counts as told

    def report(_: object, told: MarkersWritten) -> bool:
        reported.append(told)
        return True

    async def longest_turn() -> int:
        sending = MarkerSending(write=write, report=report)
        running = asyncio.create_task(sending.run())
        for markers in decisions:
            sending.send(led, markers)
        sending.flush()
        longest = before = len(written)
        while len(reported) < len(decisions):
            await asyncio.sleep(0)
            longest, before = max(longest, len(written) - before), len(written)
        running.cancel()
        return longest

    assert 0 < asyncio.run(longest_turn()) <= MARKERS_PER_TURN
    assert len(written) == len(set(written)) == MANY
    assert [told.partitions for told in reported] == [each.partitions for each in decisions]
