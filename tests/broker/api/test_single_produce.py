"""The shortcut for a produce of one batch answers, byte for byte, what the long way answers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.api import produce as produce_api
from penstock.broker.network.dispatch import Dispatch, api_key_of
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.produce_acks import REPLY_HEADER_BYTES
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.replication.marker import Marker
from penstock.wire.codec import decode
from penstock.wire.header import encode_request
from penstock.wire.messages.produce import ProduceRequest, ProduceResponse
from penstock.world.ports import Address
from rig.data_requests import produce_request
from rig.produced import NOW_MS, produced
from rig.services import LISTENER, NODE, OTHER, Broker

PEER = Address(host="127.0.0.1", port=1)
VERSIONS = range(9, 14)


def framed(request: ProduceRequest, version: int) -> bytearray:
    parts = encode_request(request, version=version, correlation_id=7, client_id="test")
    return bytearray(b"".join(bytes(part) for part in parts)[4:])  # type: ignore[arg-type]


class Ways:
    """Two brokers with the same topics: one may take the shortcut, the other may not."""

    def __init__(self, folder: Path) -> None:
        self.brokers = (Broker(folder / "short"), Broker(folder / "long"))
        api = produce_api.API
        self._dispatches = [
            (broker, Dispatch(broker.services, [chosen], listener=LISTENER))
            for broker, chosen in zip(self.brokers, (api, replace(api, shortcut=None)), strict=True)
        ]

    def create_topic(self, name: str, **options: object) -> bytes:
        ids = {broker.create_topic(name, **options) for broker in self.brokers}  # type: ignore[arg-type]
        [topic_id] = ids
        return topic_id

    def answers(self, request: ProduceRequest, version: int) -> tuple[bytes, bytes]:
        """What each way answers to the same bytes."""
        short, long = (self._answer(*one, request, version) for one in self._dispatches)
        return short, long

    def waiting(self, request: ProduceRequest, version: int) -> list[PendingReply]:
        """What each way is to answer later to the same bytes."""
        answers = []
        for broker, dispatch in self._dispatches:
            frame = memoryview(framed(request, version))
            now_ms = broker.world.clock.monotonic_ms()
            answer = dispatch.answer(frame, api_key_of(frame), peer=PEER, received_ms=now_ms)
            assert isinstance(answer, PendingReply)
            frame[:] = bytes(len(frame))  # as the next request would overwrite it
            answers.append(answer)
        return answers

    def _answer(
        self, broker: Broker, dispatch: Dispatch, request: ProduceRequest, version: int
    ) -> bytes:
        """Time that an ack would wait for is over at once."""
        frame = memoryview(framed(request, version))
        answer = dispatch.answer(
            frame, api_key_of(frame), peer=PEER, received_ms=-request.timeout_ms
        )
        if isinstance(answer, PendingReply):
            broker.partitions.ack_deadlines.expire()
            answer = answer.parts
        assert isinstance(answer, list)
        return b"".join(bytes(part) for part in answer)  # type: ignore[arg-type]


@pytest.fixture
def ways(tmp_path: Path) -> Iterator[Ways]:
    ways = Ways(tmp_path)
    yield ways
    for broker in ways.brokers:
        broker.close()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_good_batch(ways: Ways, version: int, acks: int) -> None:
    topic_id = ways.create_topic("t")
    for count in (3, 1):
        request = produce_request("t", produced(count), topic_id=topic_id, acks=acks)
        short, long = ways.answers(request, version)
        assert short == long
    assert [broker.partition("t").high_watermark for broker in ways.brokers] == [4, 4]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_corrupt_batch(ways: Ways, version: int) -> None:
    topic_id = ways.create_topic("t")
    bad = produced()
    bad[-1] ^= 1
    short, long = ways.answers(produce_request("t", bad, topic_id=topic_id), version)
    assert short == long
    assert [broker.partition("t").log.end_offset for broker in ways.brokers] == [0, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retry_and_a_gap_in_the_sequence(ways: Ways, version: int) -> None:
    topic_id = ways.create_topic("t")
    for sequence in (0, 0, 5, 1):
        batch = produced(producer_id=1, epoch=0, sequence=sequence)
        short, long = ways.answers(produce_request("t", batch, topic_id=topic_id), version)
        assert short == long
    assert [broker.partition("t").log.end_offset for broker in ways.brokers] == [2, 2]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_retry_older_than_the_remembered_batches(ways: Ways, version: int, acks: int) -> None:
    topic_id = ways.create_topic("t")
    for sequence in (*range(6), 0):
        batch = produced(producer_id=1, epoch=0, sequence=sequence)
        request = produce_request("t", batch, topic_id=topic_id, acks=acks)
        short, long = ways.answers(request, version)
        assert short == long
    answer = decode(ProduceResponse, version, memoryview(short), REPLY_HEADER_BYTES)
    [told] = answer.responses[0].partition_responses
    assert (told.error_code, told.base_offset) == (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)
    assert [broker.partition("t").log.end_offset for broker in ways.brokers] == [6, 6]


def test_an_old_retry_is_acked_when_followers_have_it(ways: Ways) -> None:
    """It may be in the log of a leader that loses it yet."""
    topic_id = ways.create_topic("t", replicas=(NODE, OTHER))
    for sequence in range(6):
        batch = produced(producer_id=1, epoch=0, sequence=sequence)
        ways.answers(produce_request("t", batch, topic_id=topic_id, acks=1), 13)
    batch = produced(producer_id=1, epoch=0, sequence=0)
    request = produce_request("t", batch, topic_id=topic_id, acks=-1)
    request.timeout_ms = 1
    short, long = ways.answers(request, 13)
    assert short == long
    answer = decode(ProduceResponse, 13, memoryview(short), REPLY_HEADER_BYTES)
    [told] = answer.responses[0].partition_responses
    assert told.error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_unknown_led_elsewhere_or_internal(ways: Ways, version: int) -> None:
    elsewhere = ways.create_topic("elsewhere", leader=OTHER, replicas=(OTHER,))
    internal = ways.create_topic("__consumer_offsets")
    for name, topic_id in (
        ("nowhere", b"\1" * 16),
        ("elsewhere", elsewhere),
        ("__consumer_offsets", internal),
    ):
        short, long = ways.answers(produce_request(name, produced(), topic_id=topic_id), version)
        assert short == long


def test_acks_nobody_knows(ways: Ways) -> None:
    topic_id = ways.create_topic("t")
    short, long = ways.answers(produce_request("t", produced(), topic_id=topic_id, acks=2), 13)
    assert short == long


def test_both_ways_log_whose_batch_was_refused(
    ways: Ways, caplog: pytest.LogCaptureFixture
) -> None:
    topic_id = ways.create_topic("t")
    for epoch in (1, 0):  # the second is a zombie's
        batch = produced(producer_id=1, epoch=epoch, sequence=0)
        short, long = ways.answers(produce_request("t", batch, topic_id=topic_id), 13)
        assert short == long
    lines = [line for line in caplog.messages if line.startswith("produce refused ")]
    assert len(lines) == 2
    for line in lines:
        assert line.endswith(" client_id=test correlation_id=7")


def test_all_acks_wait_for_followers(ways: Ways) -> None:
    topic_id = ways.create_topic("t", replicas=(NODE, OTHER))
    request = produce_request("t", produced(), topic_id=topic_id, acks=-1)
    request.timeout_ms = 1
    short, long = ways.answers(request, 13)
    assert short == long
    assert [broker.partition("t").high_watermark for broker in ways.brokers] == [Offset(0)] * 2


def begin_transaction(ways: Ways, producer_id: int) -> None:
    """The first batch of a transaction, as after its verification."""
    for broker in ways.brokers:
        partition = broker.partition("t")
        guard = partition.guards.take(ProducerId(producer_id), sequence=0)
        batch = produced(producer_id=producer_id, epoch=0, sequence=0, transactional=True)
        partition.append(batch, all_acks=True, now_ms=NOW_MS, guard=guard)
        partition.guards.release(ProducerId(producer_id), guard)


def end_transaction(ways: Ways, producer_id: int) -> None:
    marker = Marker(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        committed=True,
    )
    for broker in ways.brokers:
        broker.partition("t").end_transaction(marker, now_ms=NOW_MS)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_that_is_open_in_the_partition_goes_on(ways: Ways, version: int) -> None:
    topic_id = ways.create_topic("t")
    begin_transaction(ways, 1)
    for sequence in (1, 1, 5, 2):  # the next one, a retry, a gap, the next one
        batch = produced(producer_id=1, epoch=0, sequence=sequence, transactional=True)
        request = produce_request("t", batch, topic_id=topic_id, acks=-1)
        request.transactional_id = "payments"
        short, long = ways.answers(request, version)
        assert short == long
    assert [broker.partition("t").log.end_offset for broker in ways.brokers] == [3, 3]


@pytest.mark.parametrize(
    "batch",
    [
        produced(producer_id=1, epoch=0, sequence=1),
        produced(producer_id=1, epoch=1, sequence=0, transactional=True),
        produced(producer_id=2, epoch=0, sequence=1, transactional=True),
        produced(producer_id=3, epoch=0, sequence=0, transactional=True),
        memoryview(b"no batch"),
    ],
    ids=["of none", "another epoch", "has ended", "unknown", "no batch"],
)
def test_what_continues_no_open_transaction_is_left_to_the_long_way(
    ways: Ways, batch: memoryview
) -> None:
    topic_id = ways.create_topic("t")
    begin_transaction(ways, 1)
    begin_transaction(ways, 2)
    end_transaction(ways, 2)
    request = produce_request("t", batch, topic_id=topic_id, acks=-1)
    request.transactional_id = "payments"
    frame = memoryview(framed(request, 13))
    assert produce_api.answer_single(ways.brokers[0].services, frame, LISTENER, 0) is None
    assert ways.brokers[0].partition("t").log.end_offset == 3


def test_who_names_no_transaction_does_not_write_in_an_open_one(ways: Ways) -> None:
    topic_id = ways.create_topic("t")
    begin_transaction(ways, 1)
    batch = produced(producer_id=1, epoch=0, sequence=1, transactional=True)
    short, long = ways.answers(produce_request("t", batch, topic_id=topic_id, acks=-1), 13)
    assert short == long
    assert [broker.partition("t").log.end_offset for broker in ways.brokers] == [1, 1]


def parts_of(reply: PendingReply) -> bytes:
    assert reply.parts is not None, "not answered"
    return b"".join(bytes(part) for part in reply.parts)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_ack_that_followers_delay(ways: Ways, version: int) -> None:
    topic_id = ways.create_topic("t", replicas=(NODE, OTHER))
    request = produce_request("t", produced(2), topic_id=topic_id, acks=-1)
    short, long = ways.waiting(request, version)
    for broker in ways.brokers:
        broker.partition("t").follower_fetched(OTHER, offset=2, now_ms=0)
    assert parts_of(short) == parts_of(long)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_ack_that_a_change_of_leader_ends(ways: Ways, version: int) -> None:
    topic_id = ways.create_topic("t", replicas=(NODE, OTHER))
    request = produce_request("t", produced(), topic_id=topic_id, acks=-1)
    short, long = ways.waiting(request, version)
    for broker in ways.brokers:
        topic = broker.services.image.topics_by_name["t"]
        [partition] = topic.partitions
        moved = replace(partition, leader=OTHER, leader_epoch=LeaderEpoch(1), partition_epoch=1)
        broker.change_topic(replace(topic, partitions=(moved,)))
    assert parts_of(short) == parts_of(long)
