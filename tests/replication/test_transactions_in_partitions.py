"""A partition and its transactions: the guard of a first append, the markers that end them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId
from penstock.model.offset import Offset
from penstock.replication.guard import Guard
from penstock.replication.leader import Refusal
from penstock.replication.marker import Marker
from penstock.replication.partition import Appended, Partition
from rig.produced import NOW_MS, produced
from rig.services import Broker

PRODUCER = ProducerId(7)


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    broker = Broker(tmp_path)
    broker.create_topic("t")
    yield broker.partition("t")
    broker.close()


def write(
    partition: Partition, *, sequence: int, epoch: int = 0, guard: Guard | None
) -> Appended | Refusal:
    batch = produced(2, producer_id=PRODUCER, epoch=epoch, sequence=sequence, transactional=True)
    return partition.append(memoryview(bytearray(batch)), all_acks=True, now_ms=NOW_MS, guard=guard)


def marker(
    *, commit: bool = True, epoch: int = 0, version: int = 0, coordinator: int = 0
) -> Marker:
    return Marker(
        producer_id=PRODUCER,
        producer_epoch=ProducerEpoch(epoch),
        coordinator_epoch=coordinator,
        committed=commit,
        transaction_version=version,
    )


def refused(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


def begin(partition: Partition, *, sequence: int = 0, epoch: int = 0) -> None:
    guard = partition.guards.take(PRODUCER, sequence=sequence)
    assert isinstance(write(partition, sequence=sequence, epoch=epoch, guard=guard), Appended)
    partition.guards.release(PRODUCER, guard)


def test_unverified_records_of_a_transaction_are_refused(partition: Partition) -> None:
    assert refused(write(partition, sequence=0, guard=None)) is ErrorCode.INVALID_TXN_STATE
    assert refused(write(partition, sequence=0, guard=Guard())) is ErrorCode.INVALID_TXN_STATE
    assert partition.log.end_offset == 0


def test_an_open_transaction_goes_on_without_being_verified_again(partition: Partition) -> None:
    begin(partition)
    assert isinstance(write(partition, sequence=2, guard=Guard()), Appended)
    assert partition.last_stable_offset == 0
    assert partition.high_watermark == 4


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_the_transaction_and_lets_readers_on(
    partition: Partition, commit: bool
) -> None:
    begin(partition)
    assert partition.end_transaction(marker(commit=commit), now_ms=NOW_MS) == 3
    assert partition.last_stable_offset == 3
    aborted = partition.log.aborted_within(from_offset=Offset(0), until_offset=Offset(3))
    assert [(one.producer_id, one.first_offset) for one in aborted] == (
        [] if commit else [(PRODUCER, 0)]
    )


def test_a_marker_takes_the_guard_of_what_was_verified_before_it(partition: Partition) -> None:
    guard = partition.guards.take(PRODUCER, sequence=0)
    partition.end_transaction(marker(commit=False), now_ms=NOW_MS)
    assert refused(write(partition, sequence=0, guard=guard)) is ErrorCode.INVALID_TXN_STATE
    partition.guards.release(PRODUCER, guard)
    assert partition.last_stable_offset == partition.log.end_offset == 1


def test_the_marker_of_the_transaction_before_leaves_the_guard_of_generation_two(
    partition: Partition,
) -> None:
    """Its client begins the next transaction while the markers of the last are on their way."""
    begin(partition, epoch=3)
    guard = partition.guards.take(PRODUCER, sequence=0, ended_by_epoch=5)  # of epoch 4
    partition.end_transaction(marker(epoch=4, version=2), now_ms=NOW_MS)
    assert isinstance(write(partition, sequence=0, epoch=4, guard=guard), Appended)
    assert partition.in_transaction(PRODUCER, epoch=4)
    partition.guards.release(PRODUCER, guard)


def test_the_marker_of_its_own_transaction_takes_the_guard_of_generation_two(
    partition: Partition,
) -> None:
    guard = partition.guards.take(PRODUCER, sequence=0, ended_by_epoch=5)
    partition.end_transaction(marker(epoch=5, version=2, commit=False), now_ms=NOW_MS)
    code = refused(write(partition, sequence=0, epoch=4, guard=guard))
    assert code is ErrorCode.INVALID_TXN_STATE
    assert not partition.guards.holds(PRODUCER, guard)
    partition.guards.release(PRODUCER, guard)


@pytest.mark.parametrize("late_first", [True, False])
def test_a_late_batch_shares_no_guard_with_the_next_transaction(
    partition: Partition, late_first: bool
) -> None:
    """That one's guard outlasts the marker of the late batch's transaction."""
    epochs = (4, 5) if late_first else (5, 4)
    guards = {
        epoch: partition.guards.take(PRODUCER, sequence=0, ended_by_epoch=epoch) for epoch in epochs
    }
    assert partition.guards.holds(PRODUCER, guards[5])
    assert not partition.guards.holds(PRODUCER, guards[4])
    partition.guards.release(PRODUCER, guards[4])
    assert partition.guards.holds(PRODUCER, guards[5])
    partition.guards.release(PRODUCER, guards[5])
    assert not partition.guards.holds(PRODUCER, guards[5])


def test_two_requests_share_a_guard_until_both_are_done(partition: Partition) -> None:
    first = partition.guards.take(PRODUCER, sequence=0)
    second = partition.guards.take(PRODUCER, sequence=0)
    partition.guards.release(PRODUCER, first)
    assert isinstance(write(partition, sequence=0, guard=second), Appended)
    partition.guards.release(PRODUCER, second)
    assert not partition.guards.holds(PRODUCER, second)


def test_a_retry_of_what_is_written_is_acked_after_the_marker(partition: Partition) -> None:
    begin(partition)
    partition.end_transaction(marker(), now_ms=NOW_MS)
    again = write(partition, sequence=0, guard=None)
    assert isinstance(again, Appended)
    assert (again.base_offset, partition.log.end_offset) == (0, 3)


def test_an_unknown_producer_of_generation_two_begins_at_zero(partition: Partition) -> None:
    guard = partition.guards.take(PRODUCER, sequence=0)
    code = refused(write(partition, sequence=4, guard=guard))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(write(partition, sequence=0, guard=guard), Appended)


def test_of_batches_verified_together_the_first_is_written_first(partition: Partition) -> None:
    later = partition.guards.take(PRODUCER, sequence=6)
    earlier = partition.guards.take(PRODUCER, sequence=4)
    code = refused(write(partition, sequence=6, guard=later))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(write(partition, sequence=4, guard=earlier), Appended)
    assert isinstance(write(partition, sequence=6, guard=later), Appended)


def test_a_second_marker_is_borne(partition: Partition) -> None:
    begin(partition)
    for version in (0, 2):
        epoch = version // 2
        assert isinstance(
            partition.end_transaction(marker(epoch=epoch, version=version), now_ms=NOW_MS), int
        )
        assert isinstance(
            partition.end_transaction(marker(epoch=epoch, version=version), now_ms=NOW_MS), int
        )
    assert partition.last_stable_offset == partition.log.end_offset


def test_late_markers_are_refused(partition: Partition) -> None:
    begin(partition, epoch=3)
    for late in (marker(epoch=2), marker(epoch=3, version=2)):
        code = refused(partition.end_transaction(late, now_ms=NOW_MS))
        assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(partition.end_transaction(marker(epoch=4, coordinator=5), now_ms=NOW_MS), int)
    old = partition.end_transaction(marker(epoch=4, coordinator=4), now_ms=NOW_MS)
    assert refused(old) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_fenced_producer_writes_nothing_more(partition: Partition) -> None:
    begin(partition)
    partition.end_transaction(marker(commit=False, epoch=1, version=2), now_ms=NOW_MS)
    guard = partition.guards.take(PRODUCER, sequence=0)
    code = refused(write(partition, sequence=2, guard=guard))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_plain_batch_of_any_epoch_does_not_keep_an_open_transaction_from_its_end(
    partition: Partition, epoch: int
) -> None:
    begin(partition)
    plain = produced(producer_id=PRODUCER, epoch=epoch, sequence=0 if epoch else 2)
    outcome = partition.append(memoryview(bytearray(plain)), all_acks=True, now_ms=NOW_MS)
    assert refused(outcome) is ErrorCode.INVALID_TXN_STATE
    assert partition.end_transaction(marker(), now_ms=NOW_MS) == 3
    assert partition.last_stable_offset == 3


def test_after_a_start_a_transaction_is_verified_once_more(partition: Partition) -> None:
    begin(partition)
    partition.end()
    started = Partition(partition.log, leader_epoch=partition.leader_epoch)
    assert refused(write(started, sequence=2, guard=Guard())) is ErrorCode.INVALID_TXN_STATE
    begin(started, sequence=2)
    assert isinstance(write(started, sequence=4, guard=Guard()), Appended)
    assert started.last_stable_offset == 0


def test_a_transaction_is_passed_when_its_marker_is_committed(tmp_path: Path) -> None:
    follower = NodeId(2)
    broker = Broker(tmp_path)
    broker.create_topic("t", replicas=(NodeId(1), follower))
    partition = broker.partition("t")
    begin(partition)
    partition.end_transaction(marker(), now_ms=NOW_MS)
    begin(partition, sequence=2)
    stable: list[int] = []
    for reached in (2, 3, 5):
        partition.follower_fetched(follower, offset=reached, now_ms=NOW_MS)
        partition.check()
        stable.append(partition.last_stable_offset)
    partition.end_transaction(marker(commit=False), now_ms=NOW_MS)
    stable.append(partition.last_stable_offset)
    partition.follower_fetched(follower, offset=6, now_ms=NOW_MS)
    stable.append(partition.last_stable_offset)
    assert stable == [0, 3, 3, 3, 6]
    broker.close()
