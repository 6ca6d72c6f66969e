"""Batches: when they are complete, how much may wait, and that nobody starves."""

from dataclasses import dataclass

from penstock.client.network.errors import ClientError, Refused
from penstock.client.produce.accumulator import Accumulator, BatchRules
from penstock.client.produce.pending_batch import Delivered
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.iterate import records_of
from penstock.records.record import Record

NODE = NodeId(1)
PLACE = TopicPartition("t", 0)


@dataclass(eq=False)
class Ticket:
    result: Delivered | None = None
    error: Exception | None = None

    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def set_result(self, result: Delivered, /) -> None:
        self.result = result

    def set_exception(self, exception: Exception, /) -> None:
        self.error = exception


def leads_all(partition: TopicPartition) -> NodeId:
    return NODE


def append(
    accumulator: Accumulator, place: TopicPartition = PLACE, value: bytes = b"v", now_ms: int = 0
) -> Ticket:
    ticket = Ticket()
    accumulator.append(place, Record(None, value, (), 1_000), ticket, now_ms=now_ms)
    return ticket


def test_batch_waits_for_its_linger_and_no_longer() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=10))
    append(accumulator, now_ms=100)
    assert accumulator.next_deadline_ms() == 110
    assert accumulator.drain(leads_all, NODE, 109) == []
    assert len(accumulator.drain(leads_all, NODE, 110)) == 1


def test_full_batch_does_not_wait() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=1_000, batch_bytes_max=200))
    for _ in range(10):
        append(accumulator, value=b"x" * 50)
    assert accumulator.drain(leads_all, NODE, 0) != []


def test_flush_sends_what_there_is() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=1_000))
    append(accumulator)
    accumulator.flushing = True
    assert len(accumulator.drain(leads_all, NODE, 0)) == 1


def test_records_of_a_batch_are_told_their_offsets_and_timestamps() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    tickets = [append(accumulator) for _ in range(3)]
    (batch,) = accumulator.drain(leads_all, NODE, 0)
    accumulator.acked(batch, Offset(40), None)
    assert [t.result for t in tickets] == [
        Delivered("t", 0, Offset(n), 1_000) for n in (40, 41, 42)
    ]
    assert accumulator.is_empty


def test_append_time_of_the_broker_stands_instead_of_the_senders() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    ticket = append(accumulator)
    (batch,) = accumulator.drain(leads_all, NODE, 0)
    accumulator.acked(batch, Offset(0), 77)
    assert ticket.result is not None
    assert ticket.result.timestamp_ms == 77


def test_buffer_is_bounded_and_free_again_after_delivery() -> None:
    rules = BatchRules(linger_ms=0, batch_bytes_max=100, buffer_bytes_max=1_000)
    accumulator = Accumulator(rules)
    while accumulator.has_room(200):
        append(accumulator, value=b"x" * 100)
    assert accumulator.buffered_bytes <= 1_000
    while not accumulator.is_empty:
        for batch in accumulator.drain(leads_all, NODE, 0):
            accumulator.acked(batch, Offset(0), None)
    assert accumulator.buffered_bytes == 0
    assert accumulator.has_room(200)


def test_record_larger_than_the_buffer_may_pass_alone() -> None:
    accumulator = Accumulator(BatchRules(batch_bytes_max=100, buffer_bytes_max=1_000))
    assert accumulator.has_room(5_000)
    append(accumulator)
    assert not accumulator.has_room(5_000)


def test_request_holds_one_batch_of_a_partition_and_stays_within_its_size() -> None:
    rules = BatchRules(linger_ms=0, batch_bytes_max=300, request_bytes_max=600)
    accumulator = Accumulator(rules)
    for index in range(6):
        for _ in range(2):
            append(accumulator, TopicPartition("t", index), b"x" * 200)
    first = accumulator.drain(leads_all, NODE, 0)
    assert len({batch.partition for batch in first}) == len(first)
    assert sum(batch.size_bytes for batch in first) <= 600


def test_no_partition_starves_when_requests_are_small() -> None:
    rules = BatchRules(linger_ms=0, batch_bytes_max=300, request_bytes_max=300)
    accumulator = Accumulator(rules)
    seen = set()
    for _ in range(12):
        for index in range(4):
            append(accumulator, TopicPartition("t", index), b"x" * 200)
        for batch in accumulator.drain(leads_all, NODE, 0):
            seen.add(batch.partition.partition)
            accumulator.acked(batch, Offset(0), None)
    assert seen == {0, 1, 2, 3}


def test_only_the_partitions_of_a_node_go_to_it() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    for index in range(4):
        append(accumulator, TopicPartition("t", index))
    batches = accumulator.drain(lambda p: NodeId(p.partition % 2), NodeId(1), 0)
    assert [batch.partition.partition for batch in batches] == [1, 3]


def test_batch_is_compressed_and_holds_what_was_sent() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0, codec=Codec.ZSTD))
    for number in range(100):
        append(accumulator, value=b"value %d" % number)
    (batch,) = accumulator.drain(leads_all, NODE, 0)
    assert batch.data is not None
    view = BatchView(memoryview(batch.data))
    assert view.codec is Codec.ZSTD
    assert [record.value for record in records_of(view)] == [b"value %d" % n for n in range(100)]


def test_everything_fails_when_the_producer_is_closed() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    sent = append(accumulator)
    accumulator.drain(leads_all, NODE, 0)
    waiting = append(accumulator)
    error = ClientError("closed")
    accumulator.abandon(error)
    assert (sent.error, waiting.error) == (error, error)
    assert accumulator.buffered_bytes == 0


def test_batch_built_elsewhere_leaves_at_once_under_the_producers_numbers() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=1_000))
    accumulator.begin_epoch(7)
    built = build_batch([Record(None, b"a", (), 5), Record(None, b"b", (), 6)], codec=Codec.ZSTD)
    tickets = [Ticket(), Ticket()]
    for ticket in tickets:
        accumulator.append_ready(PLACE, bytearray(built), ticket, now_ms=0)
    (first,) = accumulator.drain(leads_all, NODE, 0)
    accumulator.acked(first, Offset(40), None)
    (second,) = accumulator.drain(leads_all, NODE, 0)
    assert (first.epoch, first.sequence) == (7, 0)
    assert (second.epoch, second.sequence) == (7, 2)
    accumulator.acked(second, Offset(42), 99)
    assert [t.result for t in tickets] == [
        Delivered("t", 0, Offset(40), 6),
        Delivered("t", 0, Offset(42), 99),
    ]
    assert accumulator.buffered_bytes == 0


def test_batch_built_elsewhere_takes_its_place_in_the_buffer() -> None:
    rules = BatchRules(batch_bytes_max=100, buffer_bytes_max=300)
    accumulator = Accumulator(rules)
    built = build_batch([Record(None, bytes(200), (), 5)])
    accumulator.append_ready(PLACE, built, Ticket(), now_ms=0)
    assert not accumulator.has_room(100)
    accumulator.check()


def test_records_before_and_after_a_built_batch_keep_their_order() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    append(accumulator, value=b"before")
    accumulator.append_ready(PLACE, build_batch([Record(None, b"built")]), Ticket(), now_ms=0)
    append(accumulator, value=b"after")
    values = []
    while batches := accumulator.drain(leads_all, NODE, 0):
        (batch,) = batches
        accumulator.acked(batch, Offset(len(values)), None)
        assert batch.data is not None
        view = BatchView(memoryview(batch.data))
        values += [(record.value, batch.sequence) for record in records_of(view)]
    assert values == [(b"before", 0), (b"built", 1), (b"after", 2)]


def test_first_batch_that_was_given_up_is_remembered_with_its_reason() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    append(accumulator)
    (batch,) = accumulator.drain(leads_all, NODE, 0)
    error = Refused(ErrorCode.INVALID_RECORD, str(PLACE))
    accumulator.failed(batch, error, now_ms=0)
    assert accumulator.given_up is error


def test_halves_of_a_batch_are_waited_for_and_batches_after_it_are_not() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    append(accumulator)
    append(accumulator)
    (whole,) = accumulator.drain(leads_all, NODE, 0)
    count = accumulator.opened_count
    append(accumulator, place=TopicPartition("t", 1))
    accumulator.failed(whole, Refused(ErrorCode.MESSAGE_TOO_LARGE, str(PLACE)), now_ms=0)
    for _ in range(2):
        assert not accumulator.has_left(count)
        first, *_ = (b for b in accumulator.drain(leads_all, NODE, 0) if b.partition == PLACE)
        assert not accumulator.has_left(count)
        accumulator.acked(first, Offset(0), None)
    assert accumulator.has_left(count)
    assert not accumulator.is_empty


def test_too_large_batch_built_elsewhere_is_given_up() -> None:
    accumulator = Accumulator(BatchRules(linger_ms=0))
    ticket = Ticket()
    built = build_batch([Record(None, b"a"), Record(None, b"b")])
    accumulator.append_ready(PLACE, built, ticket, now_ms=0)
    (batch,) = accumulator.drain(leads_all, NODE, 0)
    error = Refused(ErrorCode.MESSAGE_TOO_LARGE, str(PLACE))
    accumulator.failed(batch, error, now_ms=0)
    assert ticket.error is error
