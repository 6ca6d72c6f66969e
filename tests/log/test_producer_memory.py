"""What a log remembers of idempotent producers, and that it remembers the same after a restart."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.errors import CorruptSnapshot
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshot import decode_snapshot, encode_snapshot
from penstock.log.producer_state import BatchMemory, ProducerState, ProducerStates
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, Opened, append, make_batch, open_log
from rig.memory_disk import Crashed, MemoryDisk

SEVEN = ProducerId(7)
MAGIC_BYTE = 16  # of a batch


def put(log: PartitionLog, producer: int, sequence: int, count: int = 1, **more: bool) -> None:
    end = log.end_offset
    batch = make_batch(end, count, producer=producer, sequence=sequence, **more)
    log.append([batch], now_ms=NOW_MS)


def end_transaction(log: PartitionLog, producer: int, *, committed: bool) -> None:
    marker = end_transaction_batch(
        EndTransaction(committed=committed, coordinator_epoch=3),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
        base_offset=log.end_offset,
    )
    log.append([BatchView(memoryview(marker))], now_ms=NOW_MS)


def test_last_five_batches_of_a_producer_are_remembered() -> None:
    log = open_log(MemoryDisk()).log
    for number in range(8):
        put(log, 7, number * 2, 2)
    assert [m.base_sequence for m in log.producers.by_id[SEVEN].batches] == [6, 8, 10, 12, 14]
    assert [m.last_offset for m in log.producers.by_id[SEVEN].batches] == [7, 9, 11, 13, 15]


def test_sequences_are_known_back_to_a_gap_and_after_a_restart_to_the_remembered_batches() -> None:
    log = open_log(MemoryDisk()).log
    for sequence in (0, 1, 4, 5, 6, 7, 8, 9):
        put(log, 7, sequence)
    assert log.producers.by_id[SEVEN].unbroken_from == 4
    again = decode_snapshot(encode_snapshot(log.producers.by_id))
    assert again[SEVEN].unbroken_from == 5
    put(log, 7, 20)
    again = decode_snapshot(encode_snapshot(log.producers.by_id))
    assert again[SEVEN].unbroken_from == log.producers.by_id[SEVEN].unbroken_from == 20


def test_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    states = ProducerStates(expiry_ms=1000)
    for epoch, sequence in ((0, 0), (0, 1), (1, 0)):
        batch = make_batch(states.end_offset, producer=7, sequence=sequence)
        batch.producer_epoch = ProducerEpoch(epoch)
        states.apply(batch)
    state = states.by_id[SEVEN]
    assert (state.epoch, [m.base_sequence for m in state.batches]) == (1, [0])


def test_sequence_begins_again_after_the_largest() -> None:
    log = open_log(MemoryDisk()).log
    put(log, 7, 2**31 - 2, 3)
    memory = log.producers.by_id[SEVEN].batches[-1]
    assert (memory.base_sequence, memory.last_sequence) == (2**31 - 2, 0)
    found = decode_snapshot(encode_snapshot(log.producers.by_id))
    assert found[SEVEN].batches == [memory]


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_producer_outlives_its_records(stop: str) -> None:
    """Its last batch may come again, though what came first was deleted, and the node restarted."""
    disk = MemoryDisk()
    opened = open_log(disk)
    put(opened.log, 7, 0, 3)
    opened.log.roll()
    opened.log.advance_start(opened.log.end_offset)
    while opened.log.drop_oldest():
        pass
    before = opened.log.producers.by_id[SEVEN]
    if stop == "clean":
        opened.directory.close()
    else:
        disk = disk.after_kill()
    again = open_log(disk).log
    assert again.start_offset == again.end_offset == 3
    assert again.producers.by_id[SEVEN] == before
    again.check()


@pytest.mark.parametrize("is_rolled", [False, True])
@pytest.mark.parametrize("stop", [None, "clean", "kill"])
def test_a_producer_outlives_a_cut_to_the_start(is_rolled: bool, stop: str | None) -> None:
    """All that came before was deleted, and a new leader does not have what came after it."""
    disk = MemoryDisk()
    opened = open_log(disk)
    log = opened.log
    put(log, 7, 0, 3)
    if is_rolled:
        log.roll()
    log.advance_start(log.end_offset)
    before = log.producers.by_id[SEVEN]
    put(log, 8, 0)
    log.truncate_to(Offset(3))
    log.check()
    if stop == "clean":
        opened.directory.close()
    elif stop == "kill":
        disk = disk.after_kill()
    if stop is not None:
        log = open_log(disk).log
    assert log.start_offset == log.end_offset == 3
    assert log.producers.by_id == {SEVEN: before}
    log.check()


@pytest.mark.parametrize("is_rolled", [False, True])
@pytest.mark.parametrize("power_loss", [None, *range(8)])
def test_a_producer_outlives_a_crash_in_a_cut_to_the_start(
    is_rolled: bool, power_loss: int | None
) -> None:
    """A kill, or a loss of power by each of some seeds."""
    for call in itertools.count():
        disk = MemoryDisk()
        log = open_log(disk).log
        put(log, 7, 0, 3)
        if is_rolled:
            log.roll()
        log.advance_start(log.end_offset)
        put(log, 8, 0)
        log.sync()
        disk.faults.crash_at = disk.faults.calls + call
        try:
            log.truncate_to(Offset(3))
        except Crashed:
            log = open_log(after_crash(disk, power_loss)).log
            assert SEVEN in log.producers.by_id, call
            log.check()
        else:
            break
    assert call > 3


@pytest.mark.parametrize("power_loss", [None, *range(8)])
def test_a_producer_outlives_a_crash_in_a_cut_to_a_start_inside_of_a_segment(
    power_loss: int | None,
) -> None:
    """Its records were in a segment that is deleted: the snapshot at the next one has it alone."""
    for call in itertools.count():
        disk = MemoryDisk()
        opened = open_log(disk)
        log = opened.log
        put(log, 7, 0, 3)
        log.roll()
        put(log, 9, 0)
        put(log, 8, 0, 2)
        log.advance_start(Offset(4))
        log.sync()
        opened.directory.save_checkpoints()
        assert [segment.base_offset for segment in log.segments] == [3]
        before = log.producers.by_id[SEVEN]
        disk.faults.crash_at = disk.faults.calls + call
        try:
            log.truncate_to(Offset(4))
        except Crashed:
            disk = after_crash(disk, power_loss)
            log = open_log(disk).log
            assert log.producers.by_id[SEVEN] == before, call
            log.check()
            log.truncate_to(Offset(4))
            again = open_log(disk.after_kill()).log
            assert list(again.producers.by_id) == [7, 9], call
            assert again.start_offset == again.end_offset == 4, call
        else:
            break
    assert list(log.producers.by_id) == [7, 9]
    assert call > 9


def cut_inside_of_a_batch(disk: MemoryDisk) -> Opened:
    """A log without records that begins at 4, where a leader has records from 3 to 5 in a batch."""
    opened = open_log(disk)
    put(opened.log, 7, 0, 3)
    put(opened.log, 8, 0, 3)
    opened.log.advance_start(Offset(4))
    opened.log.truncate_to(Offset(4))
    opened.log.sync()
    return opened


def follow_from_below_the_start(log: PartitionLog) -> None:
    run = make_batch(3, 3, producer=8, sequence=0).view
    log.append_run(run, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)


@pytest.mark.parametrize("stop", [None, "clean", "kill"])
def test_a_producer_outlives_a_first_batch_from_below_the_start(stop: str | None) -> None:
    disk = MemoryDisk()
    opened = cut_inside_of_a_batch(disk)
    log = opened.log
    before = dict(log.producers.by_id)
    follow_from_below_the_start(log)
    log.check()
    if stop == "clean":
        opened.directory.close()
    elif stop == "kill":
        disk = disk.after_kill()
    if stop is not None:
        log = open_log(disk).log
    assert list(before) == [SEVEN]
    assert log.producers.by_id[SEVEN] == before[SEVEN]
    assert list(log.producers.by_id) == [7, 8]
    assert (log.start_offset, log.end_offset) == (4, 6)


@pytest.mark.parametrize("power_loss", [None, *range(8)])
def test_a_producer_outlives_a_crash_while_a_first_batch_comes_from_below_the_start(
    power_loss: int | None,
) -> None:
    for call in itertools.count():
        disk = MemoryDisk()
        log = cut_inside_of_a_batch(disk).log
        disk.faults.crash_at = disk.faults.calls + call
        try:
            follow_from_below_the_start(log)
        except Crashed:
            disk = after_crash(disk, power_loss)
            log = open_log(disk).log
            assert SEVEN in log.producers.by_id, call
            if log.end_offset == log.start_offset:
                follow_from_below_the_start(log)
            again = open_log(disk.after_kill()).log
            assert list(again.producers.by_id) == [7, 8], call
            assert (again.start_offset, again.end_offset) == (4, 6), call
            again.check()
        else:
            break
    assert call > 9


def test_a_producer_outlives_a_stop_where_there_was_no_room_for_a_first_batch() -> None:
    disk = MemoryDisk()
    opened = cut_inside_of_a_batch(disk)
    follow_from_below_the_start(cut_inside_of_a_batch(other := MemoryDisk()).log)
    disk.faults.fail_at = other.faults.calls - 1  # the write of the batch
    with pytest.raises(DiskError):
        follow_from_below_the_start(opened.log)
    assert opened.log.segments[0].base_offset == 3
    opened.directory.close()
    again = open_log(disk).log
    assert list(again.producers.by_id) == [SEVEN]
    assert again.start_offset == again.end_offset == 4
    again.check()


def test_a_full_disk_keeps_a_first_batch_from_below_the_start_waiting() -> None:
    """Whichever file there is no room for, nothing has changed; names take no room."""
    waited = 0
    for call in itertools.count():
        disk = MemoryDisk()
        log = cut_inside_of_a_batch(disk).log
        disk.faults.fail_at = disk.faults.calls + call
        try:
            follow_from_below_the_start(log)
        except DiskError as error:
            assert error.full or not error.path.endswith((".snapshot", ".tmp")), error.path
            if error.full:
                log.check()
                follow_from_below_the_start(log)
                assert list(open_log(disk.after_kill()).log.producers.by_id) == [7, 8], call
                waited += error.path.endswith(".snapshot")
        else:
            break
    assert waited > 3


@pytest.mark.parametrize("power_loss", [None, *range(8)])
def test_a_producer_outlives_a_crash_while_the_segment_of_a_first_batch_is_replaced(
    power_loss: int | None,
) -> None:
    """The log has a segment there, whose snapshot is the only memory of the deleted records; they
    were another leader's.
    """
    for call in itertools.count():
        disk = MemoryDisk()
        opened = open_log(disk)
        put(opened.log, 7, 0, 3)
        opened.log.roll()
        put(opened.log, 9, 0)
        opened.log.advance_start(Offset(4))
        opened.directory.close()
        log = open_log(disk).log
        assert [segment.base_offset for segment in log.segments] == [3]
        disk.faults.crash_at = disk.faults.calls + call
        try:
            follow_from_below_the_start(log)
        except Crashed:
            again = open_log(after_crash(disk, power_loss)).log
            assert SEVEN in again.producers.by_id, call
            again.check()
        else:
            break
    assert call > 9


def after_crash(disk: MemoryDisk, power_loss: int | None) -> MemoryDisk:
    """After a kill, or a loss of power by a seed."""
    if power_loss is None:
        return disk.after_kill()
    return disk.after_power_loss(random.Random(power_loss))


@pytest.mark.parametrize("offset", [1, 3])
def test_deleted_records_that_are_damaged_do_not_stop_a_cut(offset: int) -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    put(log, 7, 0, 3)
    log.advance_start(log.end_offset)
    put(log, 8, 0)
    [path] = [path for path in disk.files if path.endswith(".log")]
    disk.files[path].data[MAGIC_BYTE] ^= 0x40
    log.truncate_to(Offset(offset))
    assert log.start_offset == log.end_offset == offset
    log.check()


def test_memory_after_a_kill_is_that_of_the_log() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    for number in range(40):
        put(log, 7 + number % 3, number // 3)
        if number == 20:
            log.roll()
    again = open_log(disk.after_kill()).log
    for producer_id, state in log.producers.by_id.items():
        found = again.producers.by_id[producer_id]
        assert found.batches == state.batches
        assert found.last_timestamp_ms == state.last_timestamp_ms


def test_unreadable_snapshot_is_passed_over_for_an_older_one() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for number in range(60):
        put(opened.log, 7, number)
    opened.directory.close()
    snapshots = [name for name in disk.names("/data/orders-0") if name.endswith(".snapshot")]
    assert len(snapshots) > 2
    for name in snapshots[1:]:
        disk.files[f"/data/orders-0/{name}"].data[-1] ^= 1
    again = open_log(disk).log
    assert again.producers.by_id[SEVEN].batches[-1].last_sequence == 59


def test_sole_snapshot_that_cannot_be_read_is_no_sign_of_a_log_without_producers() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for number in range(4):
        put(opened.log, 7, number)
    opened.directory.close()
    [snapshot] = [name for name in disk.names("/data/orders-0") if name.endswith(".snapshot")]
    disk.files[f"/data/orders-0/{snapshot}"].data[-1] ^= 1
    again = open_log(disk).log
    assert again.producers.by_id[SEVEN].batches[-1].last_sequence == 3


def test_silent_producer_is_forgotten_and_one_in_a_transaction_is_not() -> None:
    log = open_log(MemoryDisk()).log
    put(log, 7, 0)
    put(log, 8, 0, transactional=True)
    log.expire_producers(NOW_MS + 86_400_000 * 2)
    assert list(log.producers.by_id) == [8]


def test_open_transaction_holds_back_and_its_end_releases() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    put(log, 7, 0)
    put(log, 8, 0, 2, transactional=True)
    put(log, 9, 0, 1, transactional=True)
    assert log.producers.first_open_offset == 1
    assert open_log(disk.after_kill()).log.producers.first_open_offset == 1
    end_transaction(log, 8, committed=False)
    assert log.producers.first_open_offset == 3
    end_transaction(log, 9, committed=True)
    assert log.producers.first_open_offset is None


def test_aborted_transactions_are_found_before_and_after_restarts() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    log = opened.log
    for number in range(12):
        put(log, 7, number * 2, 2, transactional=True)
        end_transaction(log, 7, committed=number % 3 != 0)
    before = log.aborted_within(from_offset=Offset(0), until_offset=log.end_offset)
    assert [one.first_offset for one in before] == [0, 9, 18, 27]
    killed = open_log(disk.after_kill()).log
    assert killed.aborted_within(from_offset=Offset(0), until_offset=Offset(36)) == before
    opened.directory.close()
    closed = open_log(disk).log
    assert closed.aborted_within(from_offset=Offset(10), until_offset=Offset(27)) == before[1:3]


def test_memory_is_the_same_for_a_log_without_producers() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(30):
        append(opened.log)
    opened.directory.close()
    assert open_log(disk).log.producers.by_id == {}


@given(
    st.lists(
        st.builds(
            ProducerState,
            producer_id=st.integers(0, 2**63 - 1).map(ProducerId),
            epoch=st.integers(0, 2**15 - 1).map(ProducerEpoch),
            coordinator_epoch=st.integers(-1, 2**31 - 1),
            current_txn_first_offset=st.none() | st.integers(0, 2**63 - 1).map(Offset),
            last_timestamp_ms=st.integers(-1, 2**62),
        ),
        max_size=4,
    )
)
def test_snapshot_round_trip(producers: list[ProducerState]) -> None:
    by_id = {producer.producer_id: producer for producer in producers}
    for producer in producers:
        producer.batches = [
            BatchMemory(3, 4, Offset(30), 1, 17),
            BatchMemory(5, 9, Offset(40), 4, producer.last_timestamp_ms),
        ]
        producer.unbroken_from = 3
    assert decode_snapshot(encode_snapshot(by_id)) == by_id


@given(st.binary(max_size=100))
def test_bytes_that_are_no_snapshot_are_refused_as_such(data: bytes) -> None:
    try:
        decode_snapshot(data)
    except CorruptSnapshot:
        return
    assert len(data) >= 10


def test_producers_are_remembered_over_clean_stops_though_a_power_loss_tore_snapshots() -> None:
    """A snapshot that is there already is not written again, unless nobody knows whether it is
    whole; and a log without any had no producers.
    """
    disk = MemoryDisk()
    opened = open_log(disk)
    for sequence in range(3):
        put(opened.log, 7, sequence)
    opened.log.roll()
    disk = disk.after_kill()
    for path in [one for one in disk.files if one.endswith(".snapshot")]:
        del disk.files[path].data[5:]
    for _ in range(4):
        again = open_log(disk)
        assert [one.base_sequence for one in again.log.producers.by_id[SEVEN].batches] == [0, 1, 2]
        again.directory.close()
        [path] = [one for one in disk.files if one.endswith(".snapshot")]
        assert decode_snapshot(disk.read(path))


def test_producers_are_remembered_after_a_clean_stop_whose_snapshot_was_damaged_later() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    put(opened.log, 7, 0)
    opened.directory.close()
    for path in [one for one in disk.files if one.endswith(".snapshot")]:
        del disk.files[path].data[5:]
    for _ in range(3):
        again = open_log(disk)
        assert SEVEN in again.log.producers.by_id
        again.directory.close()
