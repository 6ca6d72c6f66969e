"""After a stop that was not clean, what is torn goes and what was written stays."""

import random

import pytest

from penstock.log.errors import CorruptLog
from penstock.log.partition_log import PartitionLog
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from rig.compacting import end_transaction, put
from rig.logs import NOW_MS, append, make_batch, open_log, read, values
from rig.memory_disk import Crashed, MemoryDisk

FOLDER = "/data/orders-0"
CALLS_MAX = 200


def filled(segments: int = 4) -> tuple[MemoryDisk, PartitionLog]:
    """A log with producers in several segments, killed: nothing was synced or closed."""
    disk = MemoryDisk()
    log = open_log(disk).log
    while len(log.segments) < segments or log.segments[-1].size_bytes < 300:
        append(log, 2, producer=7)
    return disk, log


def test_clean_stop_scans_nothing_at_the_next_start() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(50):
        append(opened.log, 2, producer=7)
    before = values(opened.log), opened.log.producers.by_id
    opened.directory.close()
    again = open_log(disk)
    assert again.directory.clean
    assert again.log.recovery.segments_scanned == 0
    assert again.directory.recovery.bytes_scanned == 0
    assert values(again.log) == before[0]
    assert again.log.producers.by_id[7].batches[-1] == before[1][7].batches[-1]  # type: ignore[index]
    assert again.log.recovery_point == again.log.end_offset


def test_marker_of_a_clean_stop_speaks_for_that_stop_alone() -> None:
    disk = MemoryDisk()
    open_log(disk).directory.close()
    append(open_log(disk).log, 3)
    again = open_log(disk.after_kill())
    assert not again.directory.clean
    assert again.log.recovery.segments_scanned == 1
    assert again.log.end_offset == 3


def test_only_segments_from_the_recovery_point_on_are_scanned() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    while len(opened.log.segments) < 6:
        append(opened.log, 2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    append(opened.log, 2)
    again = open_log(disk.after_kill())
    assert again.log.recovery.segments_scanned == 1
    assert again.log.end_offset == opened.log.end_offset


@pytest.mark.parametrize("cut", [1, 5, 12, 40, 60, 61, 80])
def test_torn_tail_is_cut_off(cut: int) -> None:
    disk, log = filled()
    last = disk.files[log.segments[-1].path(".log")]
    torn = make_batch(log.end_offset, 2).view[:cut]
    last.data += torn
    again = open_log(disk).log
    assert again.end_offset == log.end_offset
    assert again.recovery.bytes_cut == cut
    assert again.recovery.reasons
    assert len(values(again)) == log.end_offset


def test_zeros_at_the_end_are_cut_off() -> None:
    disk, log = filled()
    disk.files[log.segments[-1].path(".log")].data += bytes(5000)
    again = open_log(disk).log
    assert again.end_offset == log.end_offset
    assert again.recovery.bytes_cut == 5000


def test_log_ends_before_the_first_batch_with_a_wrong_checksum() -> None:
    disk, log = filled(segments=5)
    second = log.segments[1]
    found = second.find(Offset(second.base_offset + 4))
    assert found is not None
    disk.files[second.path(".log")].data[found[0] + 70] ^= 1
    again = open_log(disk).log
    assert again.end_offset == second.base_offset + 4
    assert again.recovery.segments_dropped == 3
    assert len(again.segments) == 2
    assert values(again) == [(o, str(o).encode()) for o in range(again.end_offset)]
    assert again.producers.by_id[7].batches[-1].last_offset == again.end_offset - 1  # type: ignore[index]


def test_offsets_that_go_back_end_the_log() -> None:
    disk, log = filled()
    disk.files[log.segments[-1].path(".log")].data += bytes(make_batch(3, 1).view)
    again = open_log(disk).log
    assert again.end_offset == log.end_offset
    assert "offsets 3 to 3, expected 54" in again.recovery.reasons[0]


def test_hole_between_segments_ends_the_log() -> None:
    disk, log = filled(segments=5)
    disk.files[log.segments[2].path(".log")].data.clear()
    again = open_log(disk).log
    assert again.end_offset == log.segments[2].base_offset


def test_segment_that_lost_its_last_batches_ends_the_log() -> None:
    disk, log = filled(segments=5)
    segment = log.segments[2]
    positions = [position for position, _ in segment.batches()]
    del disk.files[segment.path(".log")].data[positions[-1] :]
    again = open_log(disk).log
    assert again.end_offset < log.segments[3].base_offset
    assert values(again) == [(o, str(o).encode()) for o in range(again.end_offset)]


@pytest.mark.parametrize("index_is", ["as saved", "of an earlier stop", "empty", "missing"])
@pytest.mark.parametrize("left", [1, -1])
def test_last_batches_that_are_lost_are_missed_also_if_their_timestamps_are_not(
    left: int, index_is: str
) -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    while len(log.segments) < 5:
        log.append([make_batch(log.end_offset, timestamp_ms=NOW_MS)], now_ms=NOW_MS)
    segment = log.segments[2]
    positions = [position for position, _ in segment.batches()]
    assert len(positions) > 3
    del disk.files[segment.path(".log")].data[positions[left] :]
    index = disk.files[segment.path(".index")].data
    match index_is:
        case "of an earlier stop":
            index[:] = (1).to_bytes(4, "big") + positions[1].to_bytes(4, "big")
        case "empty":
            index.clear()
        case "missing":
            del disk.files[segment.path(".index")]
    again = open_log(disk).log
    assert again.end_offset == segment.base_offset + len(positions[:left])
    assert [offset for offset, _ in values(again)] == list(range(again.end_offset))


def test_gap_that_compaction_left_stays_when_the_topic_is_compacted_no_longer() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    append(log, 3)
    log.roll()
    for base_offset in (10, 20, 21):
        log.append([make_batch(base_offset)], now_ms=NOW_MS)
        log.roll()
    again = open_log(disk.after_kill()).log
    assert again.recovery.segments_scanned == 5
    assert again.recovery.reasons == []
    assert again.end_offset == 22
    assert [offset for offset, _ in values(again)] == [0, 1, 2, 10, 20, 21]


def test_segment_that_compaction_left_without_a_byte_costs_nothing_behind_it() -> None:
    disk, log = filled(segments=5)
    emptied, after = log.segments[2], log.segments[3].base_offset
    for suffix in (".log", ".index", ".timeindex"):
        disk.files[emptied.path(suffix)].data.clear()
    checkpoint = f"0\n1\norders 0 {after}\n".encode()
    disk.write_whole("/data/cleaner-offset-checkpoint", checkpoint)
    again = open_log(disk.after_kill()).log
    assert again.recovery.segments_dropped == 0
    assert again.end_offset == log.end_offset
    kept = [*range(emptied.base_offset), *range(after, log.end_offset)]
    assert [offset for offset, _ in values(again)] == kept


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "garbage", "empty"])
@pytest.mark.parametrize("clean", [True, False])
def test_broken_index_is_rebuilt(suffix: str, damage: str, clean: bool) -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    while len(opened.log.segments) < 4:
        append(opened.log, 2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    if clean:
        opened.directory.close()
    for segment in opened.log.segments:
        node = disk.files[segment.path(suffix)]
        if damage == "missing":
            del disk.files[segment.path(suffix)]
        elif damage == "garbage":
            node.data[:] = b"\xff\xfe" * 24
        else:
            node.data.clear()
    log = open_log(disk).log
    log.check()
    assert values(log) == [(o, str(o).encode()) for o in range(log.end_offset)]
    for offset in (0, 5, log.end_offset - 1):
        timed = log.offset_at_time(NOW_MS + offset)
        assert timed is not None
        assert timed.offset == offset


def test_index_with_the_zeros_that_kafka_reserves_is_taken_as_it_is() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(12):
        append(opened.log, 2)
    opened.directory.close()
    for segment in opened.log.segments:
        disk.files[segment.path(".index")].data += bytes(10_485_760)
        disk.files[segment.path(".timeindex")].data += bytes(10_485_756)
    log = open_log(disk).log
    assert log.recovery.segments_scanned == 0
    assert values(log) == [(o, str(o).encode()) for o in range(24)]
    append(log, 2)
    log.close()
    assert disk.size(log.segments[-1].path(".index")) < 1000


def test_clean_marker_does_not_hide_a_damaged_tail() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(3):
        append(opened.log, 2)
    opened.directory.close()
    disk.files[f"{FOLDER}/{0:020d}.log"].data += b"half a batch"
    log = open_log(disk).log
    assert log.end_offset == 6
    assert log.recovery.bytes_cut == 12


def test_recovered_log_can_be_closed_cleanly_and_opened_without_a_scan() -> None:
    disk, log = filled()
    again = open_log(disk)
    append(again.log, 2)
    again.directory.close()
    last = open_log(disk)
    assert last.log.recovery.segments_scanned == 0
    assert last.log.end_offset == log.end_offset + 2


def test_half_made_directory_becomes_an_empty_log() -> None:
    disk = MemoryDisk()
    disk.make_directory(FOLDER)
    disk.open(f"{FOLDER}/partition.metadata.tmp", create=True)
    log = open_log(disk).log
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert disk.exists(f"{FOLDER}/partition.metadata")


def test_log_whose_start_lies_beyond_its_end_begins_there_anew() -> None:
    disk, _ = filled()
    disk.write_whole("/data/log-start-offset-checkpoint", b"0\n1\norders 0 5000\n")
    again = open_log(disk).log
    assert (again.start_offset, again.end_offset) == (5000, 5000)
    append(again)
    assert values(again) == [(5000, b"5000")]


def test_segments_left_by_an_interrupted_deletion_go_at_the_next_start() -> None:
    disk, log = filled()
    start = log.segments[2].base_offset
    line = f"0\n1\norders 0 {start}\n".encode()
    disk.write_whole("/data/log-start-offset-checkpoint", line)
    again = open_log(disk).log
    assert again.segments[0].base_offset == again.start_offset == start


def test_unreadable_checkpoints_cost_a_scan_and_no_records() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(30):
        append(opened.log, 2)
    opened.directory.close()
    disk.files["/data/recovery-point-offset-checkpoint"].data[:] = b"garbage\n"
    again = open_log(disk)
    assert not again.directory.clean
    assert again.log.recovery.segments_scanned == len(again.log.segments)
    assert len(values(again.log)) == 60


def test_settings_of_the_topic_do_not_change_what_is_read() -> None:
    disk, log = filled()
    again = open_log(disk, settings=TopicSettings(segment_bytes=10**6)).log
    assert values(again) == [(o, str(o).encode()) for o in range(log.end_offset)]


def test_unreadable_index_of_aborted_transactions_is_rebuilt_from_its_segment_on() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    while len(opened.log.segments) < 4:
        append(opened.log, 2, producer=7)
    opened.directory.close()
    second = opened.log.segments[1]
    disk.write_whole(second.path(".txnindex"), b"\x09" * 34)
    log = open_log(disk).log
    assert log.recovery.segments_scanned == 3
    assert log.aborted_within(from_offset=Offset(0), until_offset=log.end_offset) == ()
    assert values(log) == [(o, str(o).encode()) for o in range(log.end_offset)]


@pytest.mark.parametrize("damage", [b"", b"\0" * 12, b"0\n2\n0 0\n", b"garbage"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_epochs_are_learnt_anew_from_the_batches(damage: bytes, clean: bool) -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for epoch in (0, 0, 3, 3, 5):
        append(opened.log, 2, epoch=epoch)
        opened.log.roll()
    opened.log.sync()
    expected = opened.log.epochs.entries
    opened.directory.save_checkpoints()
    if clean:
        opened.directory.close()
    disk.files["/data/orders-0/leader-epoch-checkpoint"].data[:] = damage
    again = open_log(disk.after_kill())
    assert again.log.epochs.entries == expected
    assert "leader epochs" in again.log.recovery.reasons[-1]


def test_index_built_anew_is_as_dense_as_the_topic_wants_it() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    while len(opened.log.segments) < 2:
        append(opened.log)
    opened.directory.close()
    path = opened.log.segments[0].path(".index")
    before = disk.read(path)
    disk.files[path].data[:] = b"\xff" * 5
    log = open_log(disk).log
    assert read(log, 0)
    assert disk.read(path) == before


def test_log_emptied_behind_our_back_is_told_and_goes_on() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 3)
    opened.directory.close()
    disk.files["/data/orders-0/00000000000000000000.log"].data.clear()
    again = open_log(disk)
    assert "ends at offset 0, but was synced up to 3" in again.log.recovery.reasons[0]
    append(again.log, 2)
    again.directory.close()
    assert open_log(disk).log.end_offset == 2


def test_file_named_beyond_every_offset_is_no_segment() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 3)
    for name in ("99999999999999999999.log", "99999999999999999999.snapshot"):
        disk.open(f"/data/orders-0/{name}", create=True)
    log = open_log(disk.after_kill()).log
    append(log, 2)
    assert log.end_offset == 5
    assert len(log.segments) == 1


def test_a_lost_tail_is_missed_though_no_timestamp_tells() -> None:
    """All records are of one time, and the power loss took the last batch of a sealed segment."""
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(6):
        opened.log.append([make_batch(opened.log.end_offset, timestamp_ms=NOW_MS)], now_ms=NOW_MS)
    sealed = opened.log.segments[0]
    opened.log.roll()
    opened.log.append([make_batch(6, timestamp_ms=NOW_MS)], now_ms=NOW_MS)
    position = sealed.position_of(Offset(5))
    left = disk.after_kill()
    del left.files[sealed.file.path].data[position:]
    log = open_log(left).log
    assert [offset for offset, _ in values(log)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [b"\0\0\0\0", b"\x7f\xff\xff\xff"])
def test_damage_below_the_recovery_point_cuts_nothing(damage: bytes, clean: bool) -> None:
    """The length in the header of the last batch, which a clean start looks at, is damaged."""
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(3):
        append(opened.log, 2)
    opened.log.sync()
    opened.directory.save_checkpoints()
    last = opened.log.segments[0].find(Offset(4))
    assert last is not None
    if clean:
        opened.directory.close()
    left = disk.after_kill()
    data = left.files[f"{FOLDER}/{0:020d}.log"].data
    data[last[0] + 8 : last[0] + 12] = damage
    before = bytes(data)
    for _ in range(2):  # nor does the start after it, which finds no marker any more
        with pytest.raises(
            CorruptLog, match="no crash takes what is below offset 6, so nothing is truncated"
        ):
            open_log(left)
        left = left.after_kill()
        assert left.files[f"{FOLDER}/{0:020d}.log"].data == before


def test_segments_below_the_recovery_point_are_not_dropped() -> None:
    disk, log = filled(segments=5)
    opened = open_log(disk)
    opened.log.sync()
    opened.directory.close()
    damaged, aborted = log.segments[1], log.segments[0].path(".txnindex")
    disk.files[damaged.path(".log")].data[70] ^= 1
    disk.write_whole(aborted, b"\x09" * 34)  # it is looked at from here on
    with pytest.raises(CorruptLog):
        open_log(disk)
    assert all(disk.exists(segment.path(".log")) for segment in log.segments)


def test_transaction_aborted_in_a_segment_sealed_after_its_sync_stays_aborted() -> None:
    """The segment ends where the log was synced, and its index of aborted transactions came later:
    a power loss takes that, not the records.
    """
    disk = MemoryDisk()
    opened = open_log(disk)
    log = opened.log
    put(log, ("a", "1"), producer=7, sequence=0, transactional=True)
    end_transaction(log, 7, committed=False)
    log.sync()
    opened.directory.save_checkpoints()
    log.roll()
    append(log, 3)
    aborted = log.aborted_within(from_offset=Offset(0), until_offset=log.end_offset)
    assert len(aborted) == 1
    for seed in range(50):
        again = open_log(disk.after_power_loss(random.Random(seed))).log
        assert again.end_offset >= 2
        assert again.aborted_within(from_offset=Offset(0), until_offset=Offset(2)) == aborted


def test_gap_before_the_recovery_point_is_no_loss() -> None:
    """Apache Kafka's compaction may leave a segment without a byte; the log is synced behind it."""
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 3)
    opened.log.roll()
    append(opened.log, 3)
    opened.log.roll()
    opened.log.sync()
    opened.directory.save_checkpoints()
    append(opened.log, 3)
    left = disk.after_kill()
    left.files[f"{FOLDER}/{3:020d}.log"].data.clear()
    again = open_log(left).log
    assert again.end_offset == 9


def damaged_in_the_middle() -> MemoryDisk:
    """A log of many segments and one timestamp; a batch of the second segment is damaged."""
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    opened = open_log(disk)
    while len(opened.log.segments) < 7:
        batch = make_batch(opened.log.end_offset, timestamp_ms=NOW_MS)
        opened.log.append([batch], now_ms=NOW_MS)
    opened.log.sync()  # but no checkpoint says so
    left = disk.after_kill()
    left.files[opened.log.segments[1].file.path].data[-1] ^= 1
    return left


def test_a_crash_at_any_call_of_recovery_leaves_no_hole() -> None:
    """Not even where no timestamp tells that the end of a segment is gone."""
    damaged = damaged_in_the_middle()
    for crash_at in range(CALLS_MAX):
        recovering = damaged.after_kill()
        recovering.faults.crash_at = crash_at
        try:
            open_log(recovering)
        except Crashed:
            pass
        else:
            assert crash_at > 20
            return
        lost = [recovering.after_power_loss(random.Random(crash_at * 100 + n)) for n in range(10)]
        for left in (recovering.after_kill(), *lost):
            log = open_log(left).log
            assert [offset for offset, _ in values(log)] == list(range(log.end_offset))
    pytest.fail(f"recovery takes more than {CALLS_MAX} calls")
