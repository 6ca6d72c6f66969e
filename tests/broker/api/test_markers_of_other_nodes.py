"""WriteTxnMarkers between nodes: markers are for one leader epoch, requests can be replaced."""

import asyncio
from collections.abc import Awaitable

import pytest

from penstock.broker.api import write_txn_markers
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerId
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.wire.messages.write_txn_markers import (
    MarkerSender,
    StoppedWriter,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from rig.services import OTHER, Broker

EPOCH = 5
BROKER_EPOCH = 1  # of every broker of the rig
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def request(
    *indexes: int, epochs: tuple[int, ...] = (), number: int = 0, broker_epoch: int = BROKER_EPOCH
) -> WriteTxnMarkersRequest:
    """Without a number: of a client, such as kafka-transactions."""
    topic = WritableTxnMarkerTopic(
        name="orders", partition_indexes=list(indexes), leader_epochs=list(epochs)
    )
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=True, topics=[topic]
    )
    sender = MarkerSender(node_id=OTHER, broker_epoch=broker_epoch, request_number=number)
    return WriteTxnMarkersRequest(markers=[marker], sender=sender if number else None)


def codes(reply: WriteTxnMarkersResponse) -> list[int]:
    return [
        result.error_code
        for marker in reply.markers
        for topic in marker.topics
        for result in topic.partitions
    ]


def answer(broker: Broker, asked: WriteTxnMarkersRequest) -> list[int]:
    return codes(broker.ask(write_txn_markers.API, asked, WriteTxnMarkersResponse, version=2))


@pytest.fixture
def led_broker(broker: Broker) -> Broker:
    broker.create_topic("orders", partitions=2, leader_epoch=EPOCH)
    return broker


@pytest.mark.parametrize("meant_for", [EPOCH - 1, EPOCH + 1])
def test_a_marker_for_another_leader_epoch_is_refused(led_broker: Broker, meant_for: int) -> None:
    asked = request(0, 1, epochs=(meant_for, EPOCH), number=1)
    assert answer(led_broker, asked) == [NOT_LEADER, ErrorCode.NONE]
    assert [led_broker.partition("orders", index).log.end_offset for index in (0, 1)] == [0, 1]


def test_a_marker_without_a_leader_epoch_is_written_as_in_kafka(led_broker: Broker) -> None:
    assert answer(led_broker, request(0, 1)) == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_request_that_was_replaced_writes_nothing(led_broker: Broker) -> None:
    """It is read late, from a connection that its sender has closed meanwhile."""
    later, earlier = (request(0, epochs=(EPOCH,), number=number) for number in (2, 1))
    assert answer(led_broker, later) == [ErrorCode.NONE]
    end_offset = led_broker.partition("orders").log.end_offset
    assert answer(led_broker, earlier) == [NOT_LEADER]
    assert led_broker.partition("orders").log.end_offset == end_offset


def test_a_request_that_is_replaced_while_it_is_handled_writes_no_more(broker: Broker) -> None:
    many = 4 * ENTRIES_PER_TURN
    broker.create_topic("orders", partitions=many, leader_epoch=EPOCH)
    every = request(*range(many), epochs=(EPOCH,) * many, number=1)

    async def replace() -> list[int]:
        last = request(many - 1, epochs=(EPOCH,), number=2)
        replies = []
        for asked in (every, last):  # the second one comes after the first turn of the first
            reply = broker.send(write_txn_markers.API, asked, version=2)
            assert isinstance(reply, Awaitable)
            replies.append(asyncio.ensure_future(reply))
        replaced, _ = await asyncio.gather(*replies)
        assert isinstance(replaced, WriteTxnMarkersResponse)
        return codes(replaced)

    results = asyncio.run(replace())
    assert results[0] == ErrorCode.NONE
    assert results[-1] == NOT_LEADER
    assert broker.partition("orders", many - 1).log.end_offset == 1, "that of the second request"


def test_a_sender_that_is_not_registered_in_that_epoch_is_refused(led_broker: Broker) -> None:
    """A process that has ended, or one of which this broker knows nothing yet: it sends again."""
    for epoch in (BROKER_EPOCH - 1, BROKER_EPOCH + 1):
        asked = request(0, epochs=(EPOCH,), number=9, broker_epoch=epoch)
        assert answer(led_broker, asked) == [NOT_LEADER]
    assert answer(led_broker, request(0, epochs=(EPOCH,), number=1)) == [ErrorCode.NONE]


def test_epochs_that_are_more_or_fewer_than_the_partitions_end_nothing_else(
    led_broker: Broker,
) -> None:
    """What no node of ours sends: the partitions without an epoch are as those of a client."""
    assert answer(led_broker, request(0, 1, epochs=(EPOCH,))) == [0, 0]
    assert answer(led_broker, request(0, epochs=(EPOCH, EPOCH, 77))) == [0]


def stop(*indexes: int, epoch: int = EPOCH) -> WriteTxnMarkersRequest:
    topic = WritableTxnMarkerTopic(
        name="orders", partition_indexes=list(indexes), leader_epochs=[epoch] * len(indexes)
    )
    return WriteTxnMarkersRequest(stopped_writers=[StoppedWriter(producer_id=7, topics=[topic])])


def acknowledged(broker: Broker, asked: WriteTxnMarkersRequest) -> list[int]:
    reply = broker.ask(write_txn_markers.API, asked, WriteTxnMarkersResponse, version=2)
    assert not reply.markers
    return codes(WriteTxnMarkersResponse(markers=reply.stopped_writers))


def test_a_stopped_writer_loses_what_was_verified_for_it(led_broker: Broker) -> None:
    writer = ProducerId(7)
    guards = led_broker.partition("orders").guards
    guards.note_open(writer)
    under_way = guards.take(writer, sequence=0)
    assert acknowledged(led_broker, stop(0, epoch=EPOCH - 1)) == [NOT_LEADER]
    assert guards.found_open(writer)
    assert acknowledged(led_broker, stop(0, 1)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert not guards.found_open(writer)
    assert not guards.holds(writer, under_way)
    assert led_broker.partition("orders").log.end_offset == 0, "no marker is written"


def test_a_leader_elsewhere_is_not_acknowledged_for(broker: Broker) -> None:
    broker.create_topic("orders", leader=OTHER, replicas=(OTHER,), leader_epoch=EPOCH)
    assert acknowledged(broker, stop(0)) == [NOT_LEADER]
    assert acknowledged(broker, stop(5)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
