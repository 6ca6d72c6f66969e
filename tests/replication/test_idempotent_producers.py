"""What the leader makes of retries, gaps and new epochs: Kafka's rules, scenario by scenario."""

import pytest

from penstock.log.producer_state import ProducerStates
from penstock.model.error import ErrorCode
from penstock.model.offset import NO_OFFSET, LeaderEpoch, Offset
from penstock.model.sequence import SEQUENCE_MAX
from penstock.records.batch import BatchView
from penstock.records.layout import NO_TIMESTAMP
from penstock.replication.leader import AppendPlan, Duplicate, Refusal, plan_append
from rig.produced import produced, produced_view

EPOCH = LeaderEpoch(3)


class Log:
    """The log as far as idempotence goes: how long it is, and what it remembers."""

    def __init__(self) -> None:
        self.end_offset = Offset(0)
        self.producers = ProducerStates(expiry_ms=86_400_000)

    def plan(self, batch: BatchView) -> AppendPlan | Duplicate | Refusal:
        return plan_append(
            batch,
            end_offset=self.end_offset,
            leader_epoch=EPOCH,
            producers=self.producers.by_id,
        )

    def send(self, batch: BatchView) -> AppendPlan | Duplicate | Refusal:
        plan = self.plan(batch)
        if isinstance(plan, AppendPlan):
            self.take(batch)
        return plan

    def take(self, batch: BatchView) -> None:
        """As a follower does, or a leader that found nothing wrong."""
        batch.assign(base_offset=self.end_offset, leader_epoch=EPOCH)
        self.producers.apply(batch)
        self.end_offset = batch.next_offset


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> BatchView:
    return produced_view(count, producer_id=producer_id, epoch=epoch, sequence=sequence)


def code_of(plan: AppendPlan | Duplicate | Refusal) -> ErrorCode:
    assert isinstance(plan, Refusal), plan
    return plan.code


def test_a_batch_goes_to_the_end_under_the_leaders_epoch() -> None:
    log = Log()
    log.send(batch(0, 3))
    assert log.send(batch(3)) == AppendPlan(base_offset=Offset(3), leader_epoch=EPOCH)


@pytest.mark.parametrize("producer_id", [-1, -2, -(2**63)])
def test_batches_without_a_producer_id_are_never_duplicates(producer_id: int) -> None:
    log = Log()
    for expected in range(3):
        plan = log.send(batch(0, producer_id=producer_id))
        assert plan == AppendPlan(base_offset=Offset(expected), leader_epoch=EPOCH)
    assert log.producers.by_id == {}


def test_each_of_the_last_five_batches_is_acked_again_with_its_first_offset() -> None:
    log = Log()
    sizes = [2, 1, 3, 1, 4, 2]
    sent = [(sum(sizes[:index]), size) for index, size in enumerate(sizes)]
    for sequence, size in sent:
        log.send(batch(sequence, size))
    for sequence, size in sent[-5:]:
        again = batch(sequence, size)
        assert log.send(again) == Duplicate(
            base_offset=Offset(sequence),
            last_offset=Offset(sequence + size - 1),
            timestamp_ms=again.max_timestamp,
        )


def test_a_duplicate_older_than_five_batches_is_known_by_its_sequence() -> None:
    log = Log()
    for sequence in range(0, 16, 2):
        log.send(batch(sequence, 2))
    for sequence in (0, 2, 4):
        assert log.send(batch(sequence, 2)) == Duplicate(
            base_offset=NO_OFFSET, last_offset=Offset(5), timestamp_ms=NO_TIMESTAMP
        )


def test_an_old_duplicate_may_be_cut_in_another_way_but_for_the_remembered_batches() -> None:
    log = Log()
    for sequence in range(0, 16, 2):
        log.send(batch(sequence, 2))
    assert isinstance(log.plan(batch(1, 5)), Duplicate)
    assert code_of(log.plan(batch(1, 6))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_came_before_a_producer_that_began_in_the_middle_is_out_of_order() -> None:
    """Its earlier records may never have been here."""
    log = Log()
    for sequence in range(41, 48):
        log.send(batch(sequence))
    assert isinstance(log.plan(batch(41)), Duplicate)
    assert code_of(log.plan(batch(40))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_came_before_a_gap_in_the_log_is_out_of_order() -> None:
    """A leader that had forgotten the producer let it go on anywhere: what it left out is not
    here.
    """
    log = Log()
    for sequence in (0, 1, 5, 6, 7, 8, 9, 10):
        log.take(batch(sequence))
    assert isinstance(log.plan(batch(5)), Duplicate)
    for sequence in (0, 2, 4):
        assert code_of(log.plan(batch(sequence))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("taken", [(41, 42, 43, 50), (40, 41, 43, 44, 45, 46, 49)])
def test_what_came_before_a_gap_among_the_remembered_batches_is_out_of_order(
    taken: tuple[int, ...],
) -> None:
    log = Log()
    for sequence in taken:
        log.take(batch(sequence))
    for sequence in (0, 39, 40, 42, 47):
        if sequence not in taken[-5:]:
            code = code_of(log.plan(batch(sequence)))
            assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_that_are_still_to_come_are_never_old() -> None:
    log = Log()
    for sequence in range(7):
        log.send(batch(sequence))
    for sequence in (8, 1 << 29, 1 << 30, SEQUENCE_MAX):
        assert code_of(log.plan(batch(sequence))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_old_duplicates_are_known_across_the_largest_sequence() -> None:
    log = Log()
    for sequence in (SEQUENCE_MAX - 1, SEQUENCE_MAX, 0, 1, 2, 3, 4):
        log.send(batch(sequence))
    assert isinstance(log.plan(batch(SEQUENCE_MAX - 1)), Duplicate)
    assert isinstance(log.plan(batch(SEQUENCE_MAX)), Duplicate)
    assert code_of(log.plan(batch(SEQUENCE_MAX - 2))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_duplicate_of_an_earlier_epoch_is_fenced() -> None:
    log = Log()
    for sequence in range(7):
        log.send(batch(sequence, epoch=0))
    for sequence in range(3, 9):
        log.send(batch(sequence - 3, epoch=1))
    assert code_of(log.plan(batch(0, epoch=0))) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(log.plan(batch(0, epoch=1)), Duplicate)


def test_the_same_first_sequence_with_another_length_is_no_duplicate() -> None:
    log = Log()
    log.send(batch(0, 3))
    assert code_of(log.send(batch(0, 2))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order_and_changes_nothing() -> None:
    log = Log()
    log.send(batch(0))
    assert code_of(log.send(batch(2))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(log.send(batch(1)), AppendPlan)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = Log()
    assert isinstance(log.send(batch(41)), AppendPlan)
    assert isinstance(log.send(batch(42)), AppendPlan)


def test_an_older_epoch_is_fenced_even_for_a_duplicate() -> None:
    log = Log()
    log.send(batch(0, epoch=0))
    log.send(batch(0, epoch=1))
    assert code_of(log.send(batch(0, epoch=0))) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_must_begin_at_sequence_zero() -> None:
    log = Log()
    log.send(batch(0, epoch=0))
    assert code_of(log.send(batch(1, epoch=1))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(log.send(batch(0, epoch=1)), AppendPlan)
    assert isinstance(log.send(batch(1, epoch=1)), AppendPlan)


def test_after_the_largest_sequence_comes_zero() -> None:
    log = Log()
    log.send(batch(SEQUENCE_MAX))
    assert code_of(log.plan(batch(1))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(log.send(batch(0)), AppendPlan)


def test_a_batch_whose_sequences_wrap_is_continued_and_recognised() -> None:
    log = Log()
    log.send(batch(SEQUENCE_MAX - 1, 4))
    assert isinstance(log.send(batch(SEQUENCE_MAX - 1, 4)), Duplicate)
    assert isinstance(log.send(batch(2)), AppendPlan)


def test_producers_do_not_disturb_each_other() -> None:
    log = Log()
    log.send(batch(0, producer_id=1))
    log.send(batch(5, producer_id=2))
    assert isinstance(log.send(batch(1, producer_id=1)), AppendPlan)
    assert isinstance(log.send(batch(6, producer_id=2)), AppendPlan)


@pytest.mark.parametrize("sequence", [1, 7])
def test_a_producer_known_by_epoch_alone_continues_from_zero(sequence: int) -> None:
    log = Log()
    log.send(batch(0))
    log.producers.by_id[batch(0).producer_id].batches.clear()
    assert code_of(log.plan(batch(sequence))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(log.plan(batch(0)), AppendPlan)


def test_transactional_batches_are_refused() -> None:
    transactional = BatchView(produced(producer_id=1, epoch=0, sequence=0, transactional=True))
    assert code_of(Log().send(transactional)) == ErrorCode.INVALID_TXN_STATE


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused() -> None:
    log = Log()
    log.send(batch(0))
    log.producers.by_id[batch(0).producer_id].current_txn_first_offset = Offset(0)
    assert code_of(log.send(batch(1))) == ErrorCode.INVALID_TXN_STATE
