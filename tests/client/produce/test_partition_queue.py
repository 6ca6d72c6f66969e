"""Retries: no duplicates, no reordering, and one lost batch holds back none behind it.

The broker here is the protocol's own rule and nothing else: a batch is taken when its sequence
number is the next one of its epoch or its producer is not known, acked again when it is one of the
last five, and refused as out of order otherwise.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.network.errors import ClientError, ConnectionLost, Refused, TimedOut
from penstock.client.produce.accumulator import Accumulator, BatchRules
from penstock.client.produce.partition_queue import EPOCH_MAX
from penstock.client.produce.pending_batch import Delivered, PendingBatch
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.records.record import Record

PLACE = TopicPartition("orders", 0)
NODE = NodeId(1)


@dataclass(eq=False)
class Recorded:
    """A ticket that remembers how it was settled."""

    result: Delivered | None = None
    error: Exception | None = None

    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def set_result(self, result: Delivered, /) -> None:
        assert not self.done()
        self.result = result

    def set_exception(self, exception: Exception, /) -> None:
        assert not self.done()
        self.error = exception


@dataclass
class SequencedLog:
    """A partition as a broker keeps it."""

    values: list[bytes] = field(default_factory=list)
    epoch: int | None = None  # None: the producer is not known, and may begin anywhere
    next_sequence: int = 0
    remembered: deque[tuple[int, int, Offset]] = field(default_factory=lambda: deque(maxlen=5))

    def append(self, batch: PendingBatch) -> Offset | ErrorCode:
        assert batch.sequence is not None
        assert batch.epoch is not None
        if self.epoch is not None and batch.epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        for epoch, sequence, offset in self.remembered:
            if (epoch, sequence) == (batch.epoch, batch.sequence):
                return offset
        expected = self.next_sequence if batch.epoch == self.epoch else 0
        if self.epoch is not None and batch.sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        offset = Offset(len(self.values))
        self.values += [record.value or b"" for record in batch.records]
        self.epoch = batch.epoch
        self.next_sequence = batch.sequence + batch.record_count
        self.remembered.append((batch.epoch, batch.sequence, offset))
        return offset

    def forget_producer(self) -> None:
        self.epoch = None
        self.remembered.clear()


class Bench:
    """An accumulator of one-record batches, a log, and a wire that can be cut on either side."""

    def __init__(self, **rules: int) -> None:
        self.now_ms = 0
        limits = {"linger_ms": 0, "batch_bytes_max": 1, "backoff_ms": 1, **rules}
        self.accumulator = Accumulator(BatchRules(**limits))
        self.log = SequencedLog()
        self.wire: deque[PendingBatch] = deque()
        self.tickets: list[Recorded] = []

    def begin(self) -> None:
        """A record that is acked: the broker knows the producer from now on."""
        self.send()
        self.drain()
        self.answer()

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            self.tickets.append(Recorded())
            value = b"%d" % len(self.tickets)
            self.accumulator.append(
                PLACE, Record(None, value), self.tickets[-1], now_ms=self.now_ms
            )

    def drain(self) -> None:
        while batches := self.accumulator.drain(lambda _: NODE, NODE, self.now_ms):
            self.wire.extend(batches)
        self.accumulator.check()

    def answer(self) -> None:
        """The broker takes the oldest batch on the wire, and its answer arrives."""
        batch = self.wire.popleft()
        self.report(batch, self.log.append(batch))

    def lose_request(self) -> None:
        batch = self.wire.popleft()
        self.fail(batch, ConnectionLost("cut"))

    def lose_answer(self) -> None:
        batch = self.wire.popleft()
        self.log.append(batch)
        self.fail(batch, ConnectionLost("cut"))

    def refuse(self, code: ErrorCode) -> None:
        self.report(self.wire.popleft(), code)

    def report(self, batch: PendingBatch, outcome: Offset | ErrorCode) -> None:
        if isinstance(outcome, ErrorCode):
            self.fail(batch, Refused(outcome, str(PLACE)))
        else:
            self.accumulator.acked(batch, outcome, None)
        self.accumulator.check()

    def fail(self, batch: PendingBatch, error: ClientError) -> None:
        self.accumulator.failed(batch, error, now_ms=self.now_ms)
        self.accumulator.check()

    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.accumulator.expire(self.now_ms)
        self.accumulator.check()

    def settle(self) -> None:
        """From here on the broker answers, until nothing is left."""
        for _ in range(1000):
            if self.accumulator.is_empty:
                return
            self.pass_time(5)
            self.drain()
            while self.wire:
                self.answer()
        raise AssertionError("it does not come to an end")

    @property
    def acked(self) -> list[bytes]:
        return [b"%d" % n for n, ticket in enumerate(self.tickets, 1) if ticket.result is not None]


def test_five_batches_are_on_the_wire_at_once_and_no_more() -> None:
    bench = Bench()
    bench.begin()
    bench.send(8)
    bench.drain()
    assert len(bench.wire) == 5
    bench.settle()
    assert bench.log.values == [b"%d" % n for n in range(1, 10)]


def test_lost_connection_neither_loses_nor_doubles_nor_reorders() -> None:
    bench = Bench()
    bench.begin()
    bench.send(4)
    bench.drain()
    bench.lose_answer()
    bench.lose_answer()
    bench.lose_request()
    bench.lose_request()
    bench.settle()
    assert bench.log.values == [b"1", b"2", b"3", b"4", b"5"]
    assert bench.acked == bench.log.values


def test_batch_given_up_holds_back_none_behind_it() -> None:
    bench = Bench()
    bench.begin()
    bench.send(3)
    bench.drain()
    bench.refuse(ErrorCode.INVALID_RECORD)
    bench.answer()
    bench.answer()
    bench.settle()
    assert bench.log.values == [b"1", b"3", b"4"]
    assert bench.acked == [b"1", b"3", b"4"]
    assert isinstance(bench.tickets[1].error, Refused)


def test_first_batch_given_up_holds_back_none_behind_it() -> None:
    bench = Bench()
    bench.send(3)
    bench.drain()
    bench.refuse(ErrorCode.INVALID_RECORD)
    bench.settle()
    assert bench.log.values == [b"2", b"3"]
    assert isinstance(bench.tickets[0].error, Refused)


def test_delivery_that_is_too_late_is_told_and_the_rest_goes_on() -> None:
    bench = Bench(delivery_ms_max=100)
    bench.send()
    bench.drain()
    bench.pass_time(100)
    assert isinstance(bench.tickets[0].error, TimedOut)
    bench.send()
    bench.lose_answer()
    bench.settle()
    assert bench.acked == [b"2"]
    assert bench.log.values == [b"1", b"2"]


def test_duplicate_that_the_broker_has_forgotten_is_a_success_without_an_offset() -> None:
    bench = Bench()
    bench.send()
    bench.drain()
    bench.refuse(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert bench.tickets[0].result == Delivered("orders", 0, None, -1)


def test_batch_that_is_too_large_is_sent_in_halves() -> None:
    bench = Bench(batch_bytes_max=10_000, linger_ms=0)
    bench.send(5)
    bench.drain()
    bench.send(1)
    bench.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    bench.settle()
    assert bench.log.values == [b"%d" % n for n in range(1, 7)]
    assert [t.result.offset for t in bench.tickets if t.result] == [0, 1, 2, 3, 4, 5]


def test_halves_keep_their_order_without_idempotence() -> None:
    rules = BatchRules(idempotent=False, linger_ms=0)
    accumulator = Accumulator(rules)
    for number in range(1, 6):
        accumulator.append(PLACE, Record(None, b"%d" % number), Recorded(), now_ms=0)
    (whole,) = accumulator.drain(lambda _: NODE, NODE, 0)
    accumulator.append(PLACE, Record(None, b"6"), Recorded(), now_ms=0)
    too_large = Refused(ErrorCode.MESSAGE_TOO_LARGE, str(PLACE))
    accumulator.failed(whole, too_large, now_ms=0)
    values = []
    while batches := accumulator.drain(lambda _: NODE, NODE, 0):
        (batch,) = batches
        values += [record.value for record in batch.records]
        accumulator.acked(batch, None, None)
        accumulator.check()
    assert values == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_single_record_that_is_too_large_is_refused() -> None:
    bench = Bench()
    bench.send()
    bench.drain()
    bench.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    error = bench.tickets[0].error
    assert isinstance(error, Refused)
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE


def test_data_loss_at_the_broker_is_told_and_production_goes_on() -> None:
    bench = Bench()
    bench.send()
    bench.drain()
    bench.answer()
    bench.log = SequencedLog(epoch=0, next_sequence=0)  # an unclean election: the record is gone
    bench.send(2)
    bench.drain()
    bench.answer()
    bench.answer()
    bench.settle()
    assert isinstance(bench.tickets[1].error, Refused)
    assert bench.log.values == [b"3"]


def test_without_idempotence_one_batch_is_on_the_wire() -> None:
    rules = BatchRules(idempotent=False, linger_ms=0, batch_bytes_max=1)
    accumulator = Accumulator(rules)
    for _ in range(3):
        accumulator.append(PLACE, Record(None, b""), Recorded(), now_ms=0)
    batches = accumulator.drain(lambda _: NODE, NODE, 0)
    assert [batch.sequence for batch in batches] == [None]
    assert accumulator.drain(lambda _: NODE, NODE, 0) == []


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS]
)
def test_nothing_follows_the_first_batch_before_it_is_acked(code: ErrorCode) -> None:
    bench = Bench()
    bench.send(4)
    bench.drain()
    assert len(bench.wire) == 1
    bench.refuse(code)
    bench.pass_time(5)
    bench.drain()
    assert len(bench.wire) == 1
    bench.answer()
    bench.drain()
    assert len(bench.wire) == 3
    bench.settle()
    assert bench.log.values == [b"1", b"2", b"3", b"4"]


def test_broker_that_leads_only_after_a_refusal_gets_the_refused_batch_first() -> None:
    bench = Bench()
    bench.send()
    bench.drain()
    refused = bench.wire.popleft()  # its answer is still on the way
    bench.send(2)
    bench.drain()
    while bench.wire:
        bench.answer()
    bench.report(refused, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.settle()
    assert bench.log.values == [b"1", b"2", b"3"]
    assert bench.acked == bench.log.values


def test_batch_is_given_up_if_a_broker_that_forgot_the_producer_acked_a_later_one() -> None:
    bench = Bench()
    bench.begin()
    bench.send(4)
    bench.drain()
    bench.log.forget_producer()
    bench.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.answer()
    bench.answer()
    bench.send()
    bench.settle()
    assert bench.log.values == [b"1", b"4", b"5", b"6"]
    assert bench.acked == bench.log.values
    assert [isinstance(ticket.error, Refused) for ticket in bench.tickets[1:3]] == [True, True]


def test_markers_that_are_on_their_way_are_not_waited_for_long() -> None:
    bench = Bench(backoff_ms=1_000)
    bench.send()
    bench.drain()
    bench.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    bench.pass_time(20)
    bench.drain()
    bench.answer()
    assert bench.acked == [b"1"]


def test_a_batch_given_up_in_the_last_epoch_makes_the_rest_wait_for_another_producer_id() -> None:
    bench = Bench()
    bench.accumulator.begin_epoch(EPOCH_MAX)
    bench.begin()
    bench.send(3)
    bench.drain()
    bench.refuse(ErrorCode.INVALID_RECORD)
    bench.send()
    bench.drain()
    assert not bench.accumulator.needs_another_id  # two batches are still on the wire
    bench.answer()
    bench.answer()
    bench.pass_time(5)
    bench.drain()
    assert not bench.wire
    assert bench.accumulator.needs_another_id
    bench.log.forget_producer()  # the log does not know the other id
    bench.accumulator.begin_epoch(0)
    assert not bench.accumulator.needs_another_id
    bench.settle()
    assert bench.log.values == [b"1", b"3", b"4", b"5"]
    assert bench.acked == bench.log.values


def test_batches_with_a_number_are_sent_to_the_end_before_there_is_another_producer_id() -> None:
    other = TopicPartition("orders", 1)
    accumulator = Accumulator(BatchRules(linger_ms=0, backoff_ms=1))
    accumulator.begin_epoch(EPOCH_MAX)
    accumulator.append(PLACE, Record(None, b""), Recorded(), now_ms=0)
    accumulator.append(other, Record(None, b""), Recorded(), now_ms=0)
    refused, lost = accumulator.drain(lambda _: NODE, NODE, 0)
    accumulator.failed(refused, Refused(ErrorCode.INVALID_RECORD, str(PLACE)), now_ms=0)
    accumulator.failed(lost, ConnectionLost("cut"), now_ms=0)
    accumulator.append(other, Record(None, b""), Recorded(), now_ms=0)
    accumulator.append(PLACE, Record(None, b""), Recorded(), now_ms=0)
    assert not accumulator.needs_another_id
    again = accumulator.drain(lambda _: NODE, NODE, 10)
    assert again == [lost]
    accumulator.acked(lost, Offset(0), None)
    assert accumulator.drain(lambda _: NODE, NODE, 10) == []
    assert accumulator.needs_another_id
    accumulator.begin_epoch(0)
    numbered = accumulator.drain(lambda _: NODE, NODE, 10)
    assert [(batch.epoch, batch.sequence) for batch in numbered] == [(0, 0), (0, 0)]
    accumulator.check()


STEPS: dict[str, Callable[[Bench], None]] = {
    "answer": Bench.answer,
    "lose request": Bench.lose_request,
    "lose answer": Bench.lose_answer,
    "not leader": lambda bench: bench.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "invalid": lambda bench: bench.refuse(ErrorCode.INVALID_RECORD),
}


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(["send", "drain", "tick", "late", *STEPS]), max_size=60))
def test_every_history_keeps_order_and_writes_nothing_twice(history: list[str]) -> None:
    bench = Bench(delivery_ms_max=50)
    for step in history:
        if step == "send":
            bench.send()
        elif step == "drain":
            bench.drain()
        elif step == "tick":
            bench.pass_time(2)
        elif step == "late":
            bench.pass_time(50)
        elif bench.wire:
            STEPS[step](bench)
    bench.settle()
    written = [int(value) for value in bench.log.values]
    assert written == sorted(set(written))
    assert set(bench.acked) <= set(bench.log.values)
    assert all(ticket.done() for ticket in bench.tickets)
    assert bench.accumulator.buffered_bytes == 0


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT])
def test_retriable_refusal_is_tried_again_after_the_backoff(code: ErrorCode) -> None:
    bench = Bench(backoff_ms=100)
    bench.send()
    bench.drain()
    bench.refuse(code)
    bench.drain()
    assert not bench.wire
    bench.pass_time(100)
    bench.drain()
    bench.answer()
    assert bench.acked == [b"1"]
