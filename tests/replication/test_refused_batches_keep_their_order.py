"""A batch that is refused for now is sent again: what its producer sent after it waits for it."""

import pytest

from penstock.log.opening import open_log
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.model.sequence import SEQUENCE_MAX
from penstock.model.settings.topic import TopicSettings
from penstock.records.errors import InvalidBatch
from penstock.replication.leader import Refusal
from penstock.replication.marker import Marker
from penstock.replication.partition import Appended, Partition
from penstock.replication.refused_sequences import PRODUCERS_MAX, REMEMBERED_MS
from penstock.world.errors import DiskError
from rig.memory_disk import MemoryDisk
from rig.produced import NOW_MS, produced

PRODUCER = 7


class Rig:
    """A partition with a disk that can be full and a follower that can fall out of sync."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.now_ms = NOW_MS
        log = open_log(
            disk=self.disk,
            directory="/t-0",
            partition=TopicPartition("t", 0),
            topic_id=TopicId(bytes(15) + b"\x01"),
            settings=TopicSettings(min_insync_replicas=2),
            now_ms=NOW_MS,
        )
        self.partition = Partition(
            log, leader_epoch=LeaderEpoch(0), node_id=NodeId(1), replicas=(NodeId(1), NodeId(2))
        )
        self.follower_in_sync(True)

    def follower_in_sync(self, in_sync: bool) -> None:
        self.partition.change_replicas(
            leader_epoch=self.partition.leader_epoch,
            partition_epoch=self.partition.partition_epoch + 1,
            replicas=(NodeId(1), NodeId(2)),
            in_sync=(NodeId(1), NodeId(2)) if in_sync else (NodeId(1),),
        )

    def send(
        self,
        sequence: int,
        *,
        count: int = 1,
        epoch: int = 0,
        producer: int = PRODUCER,
        all_acks: bool = True,
    ) -> ErrorCode:
        data = produced(count, producer_id=producer, epoch=epoch, sequence=sequence)
        try:
            outcome = self.partition.append(data, all_acks=all_acks, now_ms=self.now_ms)
        except DiskError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.partition.check()
        return outcome.code if isinstance(outcome, Refusal) else ErrorCode.NONE

    def send_while_full(self, *sequences: int, producer: int = PRODUCER) -> None:
        self.disk.faults.full = True
        for sequence in sequences:
            assert self.send(sequence, producer=producer) is ErrorCode.KAFKA_STORAGE_ERROR
        self.disk.faults.full = False

    def send_with_too_few_in_sync(self, *sequences: int) -> None:
        self.follower_in_sync(False)
        for sequence in sequences:
            assert self.send(sequence) is ErrorCode.NOT_ENOUGH_REPLICAS
        self.follower_in_sync(True)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_batch_behind_one_that_a_full_disk_refused_gets_its_code(rig: Rig) -> None:
    rig.send_while_full(0)
    assert [rig.send(sequence) for sequence in (1, 2)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert [rig.send(sequence) for sequence in (0, 1, 2)] == [ErrorCode.NONE] * 3


def test_a_batch_behind_one_that_lacked_replicas_gets_its_code(rig: Rig) -> None:
    rig.send_with_too_few_in_sync(0)
    assert rig.send(1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert rig.send(1, all_acks=False) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert [rig.send(sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


def test_the_lowest_of_several_refused_sequences_counts(rig: Rig) -> None:
    rig.send_while_full(6, 5, 7)
    assert [rig.send(sequence) for sequence in (7, 6)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert [rig.send(sequence) for sequence in (5, 6, 7)] == [ErrorCode.NONE] * 3


def test_a_known_producer_gets_the_retriable_code_instead_of_out_of_order(rig: Rig) -> None:
    assert rig.send(0) is ErrorCode.NONE
    rig.send_while_full(1)
    assert rig.send(2) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [rig.send(sequence) for sequence in (1, 2)] == [ErrorCode.NONE] * 2


def test_a_lower_sequence_ends_the_wait_as_well(rig: Rig) -> None:
    rig.send_while_full(5)
    assert rig.send(0, count=6) is ErrorCode.NONE
    assert rig.send(6) is ErrorCode.NONE


def test_a_duplicate_ends_the_wait(rig: Rig) -> None:
    """The batch was appended before, its ack was lost, and its retry lacked replicas."""
    assert [rig.send(sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2
    rig.send_with_too_few_in_sync(0)
    assert [rig.send(sequence) for sequence in (1, 0, 2)] == [ErrorCode.NONE] * 3


def test_sequences_that_wrap_around_keep_their_order(rig: Rig) -> None:
    rig.send_while_full(SEQUENCE_MAX)
    assert rig.send(0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [rig.send(sequence) for sequence in (SEQUENCE_MAX, 0)] == [ErrorCode.NONE] * 2


def test_a_new_producer_epoch_begins_anew(rig: Rig) -> None:
    rig.send_while_full(3)
    assert rig.send(0, epoch=1) is ErrorCode.NONE
    assert rig.send(1, epoch=1) is ErrorCode.NONE


def test_a_late_refusal_of_an_older_epoch_does_not_replace_that_of_a_newer_one(rig: Rig) -> None:
    rig.disk.faults.full = True
    assert rig.send(0, epoch=2) is ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.send(0, epoch=1) is ErrorCode.KAFKA_STORAGE_ERROR
    rig.disk.faults.full = False
    assert rig.send(1, epoch=2) is ErrorCode.KAFKA_STORAGE_ERROR


def test_after_the_delivery_timeout_a_refused_sequence_is_forgotten(rig: Rig) -> None:
    rig.send_while_full(0)
    rig.now_ms += REMEMBERED_MS - 1
    assert rig.send(1) is ErrorCode.KAFKA_STORAGE_ERROR
    rig.now_ms += 1
    assert rig.send(1) is ErrorCode.NONE


def test_each_refusal_of_the_lowest_sequence_begins_the_time_anew(rig: Rig) -> None:
    rig.send_while_full(0)
    rig.now_ms += REMEMBERED_MS - 1
    rig.send_while_full(0)
    rig.now_ms += REMEMBERED_MS - 1
    assert rig.send(1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_refusal_that_is_final_is_not_remembered(rig: Rig) -> None:
    assert rig.send(0) is ErrorCode.NONE
    assert rig.send(5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rig.send(1, count=4) is ErrorCode.NONE
    assert [rig.send(sequence) for sequence in (5, 6)] == [ErrorCode.NONE] * 2


def test_a_final_refusal_of_the_same_sequence_ends_the_wait(rig: Rig) -> None:
    """A retry that is not known for one: the producer must not be held up by it."""
    assert [rig.send(sequence) for sequence in range(3, 13)] == [ErrorCode.NONE] * 10
    rig.send_with_too_few_in_sync(2)
    assert rig.send(13) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert rig.send(2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rig.send(13) is ErrorCode.NONE


def test_an_old_duplicate_ends_the_wait(rig: Rig) -> None:
    assert [rig.send(sequence) for sequence in range(10)] == [ErrorCode.NONE] * 10
    rig.send_with_too_few_in_sync(2)
    assert rig.send(10) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert rig.send(2) is ErrorCode.NONE
    assert rig.send(10) is ErrorCode.NONE


def test_a_corrupt_batch_is_not_remembered(rig: Rig) -> None:
    rig.follower_in_sync(False)
    data = produced(1, producer_id=PRODUCER, epoch=0, sequence=0)
    data[-1] ^= 1
    refusal = rig.partition.append(data, all_acks=True, now_ms=NOW_MS)
    assert isinstance(refusal, Refusal)
    rig.follower_in_sync(True)
    assert rig.send(1) is ErrorCode.NONE


def test_producers_do_not_wait_for_each_other(rig: Rig) -> None:
    rig.send_while_full(0)
    assert rig.send(1, producer=8) is ErrorCode.NONE
    data = produced(1)
    assert isinstance(rig.partition.append(data, all_acks=True, now_ms=NOW_MS), Appended)


def test_a_bounded_number_of_producers_is_remembered(rig: Rig) -> None:
    for producer in range(PRODUCERS_MAX + 1):
        rig.send_while_full(4, producer=producer)
    assert rig.send(5, producer=0) is ErrorCode.NONE
    assert rig.send(5, producer=1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_final_refusal_by_the_checks_of_a_batch_ends_the_wait(rig: Rig) -> None:
    rig.send_with_too_few_in_sync(0)
    rig.partition.reconfigure(TopicSettings(min_insync_replicas=2, max_message_bytes=10))
    with pytest.raises(InvalidBatch):
        rig.send(0)
    rig.partition.reconfigure(TopicSettings(min_insync_replicas=2))
    assert rig.send(1) is ErrorCode.NONE


def test_a_clock_that_is_set_back_does_not_hold_up_a_producer(rig: Rig) -> None:
    rig.send_while_full(0)
    rig.now_ms -= 3_600_000
    assert rig.send(1) is ErrorCode.NONE


def test_bytes_after_a_refused_batch_do_not_matter(rig: Rig) -> None:
    rig.follower_in_sync(False)
    data = bytearray(produced(1, producer_id=PRODUCER, epoch=0, sequence=0)) + b"\0\0"
    refusal = rig.partition.append(memoryview(data), all_acks=True, now_ms=NOW_MS)
    assert isinstance(refusal, Refusal)
    rig.follower_in_sync(True)
    assert rig.send(1) is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("code", "afterwards"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_a_batch_refused_unverified_keeps_its_place_until_its_transaction_ends(
    rig: Rig, code: ErrorCode, afterwards: ErrorCode
) -> None:
    """One that was refused because the transaction before had not ended is of the next one."""
    partition, producer = rig.partition, ProducerId(PRODUCER)

    def batch(sequence: int) -> memoryview:
        return produced(1, producer_id=PRODUCER, epoch=0, sequence=sequence, transactional=True)

    def send_verified(sequence: int) -> ErrorCode:
        guard = partition.guards.take(producer, sequence=sequence)
        outcome = partition.append(batch(sequence), all_acks=True, now_ms=NOW_MS, guard=guard)
        partition.guards.release(producer, guard)
        return outcome.code if isinstance(outcome, Refusal) else ErrorCode.NONE

    partition.note_refused(batch(0), code, now_ms=NOW_MS)
    assert send_verified(1) is code
    marker = Marker(
        producer_id=producer,
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        committed=False,
    )
    assert not isinstance(partition.end_transaction(marker, now_ms=NOW_MS), Refusal)
    assert send_verified(1) is afterwards
    assert send_verified(0) is ErrorCode.NONE
