"""What a leader sends is appended as it is, or refused as a whole."""

import random
import struct
import zlib
from dataclasses import replace

import pytest

from penstock.log.errors import CorruptRun
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_state import ProducerState
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.checksum import crc32c
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.layout import ATTRIBUTES_POSITION, CHECKSUM_POSITION
from penstock.world.errors import DiskError
from rig.logs import NOW_MS, SMALL, Opened, append, make_batch, open_log, values
from rig.memory_disk import Crashed, MemoryDisk

EPOCH = LeaderEpoch(99)
ONE_SEGMENT = TopicSettings()
CALLS_MAX = 400
LAST_OFFSET_DELTA_POSITION = ATTRIBUTES_POSITION + 2


def follow(log: PartitionLog, *batches: BatchView | bytes, epoch: int = EPOCH) -> int:
    """Appends them as one run."""
    data = b"".join(bytes(one.view) if isinstance(one, BatchView) else one for one in batches)
    return log.append_run(memoryview(data), leader_epoch=LeaderEpoch(epoch), now_ms=NOW_MS)


def marker(offset: int, producer: int, *, committed: bool, epoch: int = 0) -> BatchView:
    data = end_transaction_batch(
        EndTransaction(committed=committed, coordinator_epoch=3),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS + offset,
        base_offset=Offset(offset),
        leader_epoch=LeaderEpoch(epoch),
    )
    return BatchView(memoryview(data))


def test_a_marker_whose_batch_has_room_for_more_ends_where_the_batch_does() -> None:
    """Its checksum matches: it stops neither the follower nor the next start."""
    disk = MemoryDisk()
    log = open_log(disk).log
    strange = bytearray(marker(0, 11, committed=False).view)
    struct.pack_into(">i", strange, LAST_OFFSET_DELTA_POSITION, 4)
    struct.pack_into(">I", strange, CHECKSUM_POSITION, crc32c(strange[ATTRIBUTES_POSITION:]))
    follow(log, bytes(strange), marker(5, 11, committed=True))
    log.check()
    assert log.end_offset == 6
    assert open_log(disk.after_kill()).log.end_offset == 6


def history(chance: random.Random, count: int) -> list[BatchView]:
    """Batches of producers in and out of transactions, of growing epochs, some compacted away."""
    made: list[BatchView] = []
    offset = epoch = 0
    is_open = dict.fromkeys((11, 12, 13), False)
    for _ in range(count):
        epoch += chance.random() < 0.1
        offset += chance.choice((0, 0, 0, 0, 3))
        producer = chance.choice((-1, 7, 11, 12, 13))
        if is_open.get(producer) and chance.random() < 0.5:
            made.append(marker(offset, producer, committed=chance.random() < 0.5, epoch=epoch))
            is_open[producer] = False
        else:
            if producer in is_open:
                is_open[producer] = True
            made.append(
                make_batch(
                    offset,
                    chance.randint(1, 5),
                    epoch=epoch,
                    producer=producer,
                    sequence=offset if producer >= 0 else -1,
                    size_bytes=chance.choice((5, 20, 200)),
                    transactional=producer in is_open,
                )
            )
        offset = made[-1].next_offset
    return made


def runs(chance: random.Random, batches: list[BatchView]) -> list[bytes]:
    found, rest = [], list(batches)
    while rest:
        count = chance.randint(1, 12)
        found.append(b"".join(bytes(batch.view) for batch in rest[:count]))
        del rest[:count]
    return found


def stored_bytes(log: PartitionLog) -> bytes:
    return b"".join(segment.file.read_at(0, segment.size_bytes) for segment in log.segments)


def remembered(producer: ProducerState) -> object:
    """What a snapshot keeps: not the times of single batches."""
    batches = [(one.base_sequence, one.last_sequence, one.last_offset) for one in producer.batches]
    return replace(producer, batches=[]), batches


def state(log: PartitionLog) -> tuple[object, ...]:
    """Everything that follows from the batches."""
    return (
        log.end_offset,
        log.epochs.entries,
        {number: remembered(producer) for number, producer in log.producers.by_id.items()},
        log.producers.first_open_offset,
        log.aborted_within(from_offset=Offset(0), until_offset=log.end_offset),
        log.offset_of_max_timestamp(),
        log.offset_at_time(NOW_MS + log.end_offset // 2),
    )


def as_leader(disk: MemoryDisk, batches: list[BatchView]) -> PartitionLog:
    log = open_log(disk).log
    for batch in batches:
        log.append([batch], now_ms=NOW_MS)
    return log


@pytest.mark.parametrize("seed", range(20))
def test_a_follower_has_the_bytes_and_the_state_of_its_leader(seed: int) -> None:
    chance = random.Random(seed)
    batches = history(chance, 80)
    leader = as_leader(MemoryDisk(), batches)
    disk = MemoryDisk()
    opened = open_log(disk)
    follower = opened.log
    for data in runs(chance, batches):
        cut_off = bytes(batches[0].view)[: chance.randrange(60)]
        taken = follow(follower, data, cut_off)
        assert taken == len(data)
        follower.check()
        if chance.random() < 0.1:
            follower.sync()
            opened.directory.save_checkpoints()
    assert len(follower.segments) > 3
    assert stored_bytes(follower) == stored_bytes(leader)
    assert state(follower) == state(leader)
    killed = open_log(disk.after_kill()).log
    assert stored_bytes(killed) == stored_bytes(leader)
    assert state(killed) == state(leader)
    opened.directory.close()
    stopped = open_log(disk).log
    assert stopped.recovery.segments_scanned == 0
    assert state(stopped) == state(leader)


@pytest.mark.parametrize("seed", range(6))
def test_segments_end_where_those_of_a_leader_end(seed: int) -> None:
    """By size, time, and full indexes alike: the rules are asked batch by batch."""
    chance = random.Random(seed)
    settings = replace(SMALL, segment_ms=40, segment_index_bytes=48)
    batches = [batch for batch in history(chance, 120) if batch.base_offset >= 0]
    leader = open_log(MemoryDisk(), settings=settings).log
    follower = open_log(MemoryDisk(), settings=settings).log
    end = 0
    for batch in batches:  # without gaps: there a follower's segment begins at the gap
        if batch.base_offset == end:
            leader.append([batch], now_ms=NOW_MS)
            end = batch.next_offset
    written = list(leader.batches_from(Offset(0)))
    for data in runs(chance, written):
        follow(follower, data)
    assert [one.base_offset for one in follower.segments] == [
        one.base_offset for one in leader.segments
    ]


def test_a_run_is_one_write_in_each_segment() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=ONE_SEGMENT).log
    follow(log, make_batch(0))
    before = disk.faults.calls
    follow(log, *(make_batch(1 + number) for number in range(500)))
    assert disk.faults.calls - before == 1
    assert log.end_offset == 501


def changed(batch: BatchView, position: int, form: str, value: int) -> bytes:
    data = bytearray(batch.view)
    struct.pack_into(form, data, position, value)
    return bytes(data)


def flipped(batch: BatchView) -> bytes:
    return changed(batch, len(batch.view) - 1, ">B", batch.view[-1] ^ 1)


NEXT = make_batch(13, 3, epoch=4)
BAD_RUNS = {
    "a flipped bit": (flipped(NEXT), "the checksum of the batch at offset 13 does not match"),
    "unknown magic": (changed(NEXT, 16, ">b", 3), "unknown magic 3"),
    "negative size": (changed(NEXT, 8, ">i", -1), "a batch of 11 bytes"),
    "size below a header": (changed(NEXT, 8, ">i", 40), "a batch of 52 bytes"),
    "offsets that overlap": (bytes(make_batch(12, 3, epoch=4).view), "a batch begins at offset 12"),
    "negative offset": (bytes(changed(NEXT, 0, ">q", -5)), "a batch has offsets -5 to -3"),
    "last offset below the first": (
        changed(NEXT, 23, ">i", -1),
        "a batch has offsets 13 to 12",
    ),
    "offsets beyond the largest": (
        changed(NEXT, 0, ">q", 2**63 - 2),
        f"a batch has offsets {2**63 - 2} to {2**63}",
    ),
    "an older epoch": (
        bytes(make_batch(13, 3, epoch=2).view),
        "the batch at offset 13 is of leader epoch 2, after one of 4",
    ),
}


@pytest.mark.parametrize("kind", BAD_RUNS)
def test_a_bad_batch_refuses_the_whole_run_and_nothing_changes(kind: str) -> None:
    bad, reason = BAD_RUNS[kind]
    disk = MemoryDisk()
    log = open_log(disk).log
    append(log, 10, epoch=3)
    before, calls = state(log), disk.faults.calls
    with pytest.raises(CorruptRun) as refused:
        follow(log, make_batch(10, 3, epoch=4), bad, make_batch(16, epoch=4))
    if "negative offset" not in kind:
        assert str(refused.value) == f"orders-0: the leader's batches for offset 13: {reason}"
    assert (state(log), disk.faults.calls) == (before, calls)
    log.check()
    assert follow(log, make_batch(10, 3, epoch=4), NEXT) > 0
    assert log.end_offset == 16


def test_an_epoch_older_than_that_of_the_log_is_refused() -> None:
    log = open_log(MemoryDisk()).log
    append(log, 10, epoch=3)
    with pytest.raises(CorruptRun, match=r"is of leader epoch 2, after one of 3"):
        follow(log, make_batch(10, epoch=2))


def test_what_the_log_has_already_is_refused() -> None:
    log = open_log(MemoryDisk()).log
    append(log, 10)
    with pytest.raises(CorruptRun, match=r"for offset 10: a batch begins at offset 8"):
        follow(log, make_batch(8, 5))


@pytest.mark.parametrize("kept", [0, 5, 12, 16, 17, 40, 61, 80])
def test_an_incomplete_batch_at_the_end_is_left_out(kept: int) -> None:
    log = open_log(MemoryDisk()).log
    whole = make_batch(0, 3)
    taken = follow(log, whole, bytes(make_batch(3).view)[:kept])
    assert (taken, log.end_offset) == (whole.size_bytes, 3)
    assert follow(log, bytes(make_batch(3).view)[:kept]) == 0
    assert values(log) == [(offset, str(offset).encode()) for offset in range(3)]


def test_a_run_ends_before_a_batch_of_a_newer_leader_than_the_one_asked() -> None:
    """Its sender has lost its leadership and follows the next leader already (KAFKA-18723)."""
    log = open_log(MemoryDisk()).log
    first = make_batch(0, 3, epoch=4)
    taken = follow(log, first, make_batch(3, 2, epoch=6), make_batch(1, epoch=0), epoch=5)
    assert (taken, log.end_offset, log.epochs.latest) == (first.size_bytes, 3, 4)


def test_an_epoch_that_wrote_nothing_gives_way_to_an_older_leader_s_batches() -> None:
    log = open_log(MemoryDisk()).log
    append(log, 10, epoch=3)
    log.begin_epoch(LeaderEpoch(5))
    follow(log, make_batch(10, 2, epoch=4))
    assert [(one.epoch, one.start_offset) for one in log.epochs.entries] == [(3, 0), (4, 10)]
    log.check()


def test_an_epoch_that_wrote_nothing_gives_way_to_a_newer_leader_s_batches_after_a_gap() -> None:
    log = open_log(MemoryDisk()).log
    append(log, 10, epoch=3)
    log.begin_epoch(LeaderEpoch(5))
    follow(log, make_batch(14, 2, epoch=6))
    assert [(one.epoch, one.start_offset) for one in log.epochs.entries] == [(3, 0), (6, 14)]


def test_an_empty_log_that_begins_inside_of_a_batch_takes_the_whole_batch() -> None:
    """The leader's records were deleted up to there, and it sends whole batches."""
    disk = MemoryDisk()
    opened = open_log(disk)
    log = opened.log
    log.truncate_fully_and_start_at(Offset(13))
    follow(log, make_batch(10, 5, epoch=4), make_batch(15, 2, epoch=4))
    log.check()
    assert (log.start_offset, log.end_offset) == (13, 17)
    assert values(log) == [(offset, str(offset).encode()) for offset in range(13, 17)]
    again = open_log(disk.after_kill()).log
    assert (again.start_offset, again.end_offset) == (13, 17)


def test_killed_while_its_first_batch_comes_from_below_its_start_a_log_is_empty_or_has_it() -> None:
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        log = open_log(disk).log
        log.truncate_fully_and_start_at(Offset(13))
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            follow(log, make_batch(10, 5))
        except Crashed:
            again = open_log(disk.after_kill()).log
            if again.end_offset == 13:
                follow(again, make_batch(10, 5))
            assert (again.start_offset, again.end_offset) == (13, 15)
        else:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")


def test_full_disk_leaves_a_log_empty_that_begins_inside_of_a_batch() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=ONE_SEGMENT).log
    log.truncate_fully_and_start_at(Offset(13))
    disk.faults.calls, disk.faults.fail_at = 0, calls_of_first_batch() - 1
    with pytest.raises(DiskError):
        follow(log, make_batch(10, 5))
    log.check()
    assert (log.start_offset, log.end_offset) == (13, 13)
    follow(log, make_batch(10, 5))
    assert (log.start_offset, log.end_offset) == (13, 15)


@pytest.mark.parametrize("fail_at", range(20))
def test_a_full_disk_in_between_is_no_matter_of_room_alone(fail_at: int) -> None:
    """Without its segment a log is of no use: its directory is to be given up, and restarted."""
    disk = MemoryDisk()
    log = open_log(disk, settings=ONE_SEGMENT).log
    log.truncate_fully_and_start_at(Offset(13))
    disk.faults.calls, disk.faults.fail_at = 0, fail_at
    try:
        follow(log, make_batch(10, 5))
    except DiskError as error:
        assert not error.full or log.segments
    again = open_log(disk.after_kill()).log
    assert again.start_offset == 13
    again.check()


def calls_of_first_batch() -> int:
    """How often the disk is changed in the test above; the last time is the write of the batch."""
    disk = MemoryDisk()
    log = open_log(disk, settings=ONE_SEGMENT).log
    log.truncate_fully_and_start_at(Offset(13))
    disk.faults.calls = 0
    follow(log, make_batch(10, 5))
    return disk.faults.calls


def test_a_batch_below_the_start_is_refused_where_the_log_has_records() -> None:
    log = open_log(MemoryDisk()).log
    log.truncate_fully_and_start_at(Offset(13))
    follow(log, make_batch(13, 5))
    with pytest.raises(CorruptRun):
        follow(log, make_batch(16, 5))


def test_gaps_between_segments_survive_a_kill_right_after_a_sync() -> None:
    """Compaction at the leader has removed the batches in between: nothing was lost here."""
    disk = MemoryDisk()
    opened = open_log(disk, settings=replace(SMALL, segment_bytes=300))
    log = opened.log
    follow(log, make_batch(0, 4), make_batch(4, 4))
    log.sync()
    opened.directory.save_checkpoints()
    follow(log, make_batch(100, 4), make_batch(250, 4))
    assert len(log.segments) > 1
    again = open_log(disk.after_kill()).log
    assert again.end_offset == 254
    assert again.recovery.bytes_cut == 0


def test_batches_farther_apart_than_a_segment_reaches_are_in_two_segments() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=ONE_SEGMENT).log
    far = 2**31 + 50
    follow(log, make_batch(0, 4), make_batch(far, 4))
    assert [one.base_offset for one in log.segments] == [0, far]
    again = open_log(disk.after_kill(), settings=ONE_SEGMENT).log
    assert again.end_offset == far + 4


def old_message(offset: int, value: bytes) -> bytes:
    """Format v1."""
    body = struct.pack(">bbqi", 1, 0, NOW_MS, -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_messages_of_old_formats_are_taken() -> None:
    """A leader may have them in its log from before."""
    log = open_log(MemoryDisk()).log
    follow(log, old_message(0, b"0"), old_message(1, b"1"), make_batch(2, epoch=1))
    assert values(log) == [(0, b"0"), (1, b"1"), (2, b"2")]
    damaged = bytearray(old_message(3, b"3"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRun, match="checksum of the batch at offset 3"):
        follow(log, bytes(damaged))


def test_failed_write_leaves_whole_batches_and_the_log_goes_on() -> None:
    batches = history(random.Random(5), 40)
    expected = as_leader(MemoryDisk(), batches)
    for fail_at in range(CALLS_MAX):
        disk = MemoryDisk()
        log = open_log(disk).log
        disk.faults.calls, disk.faults.fail_at = 0, fail_at
        failed = False
        while log.end_offset < expected.end_offset:
            rest = [batch for batch in batches if batch.base_offset >= log.end_offset]
            try:
                follow(log, *rest)
            except DiskError:
                failed = True
            log.check()
        assert state(log) == state(expected)
        assert state(open_log(disk.after_kill()).log) == state(expected)
        if not failed:
            return
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")


def follow_and_sync(opened: Opened, batches: list[BatchView], promised: list[int]) -> None:
    """`promised` ends with the offset up to which everything is synced."""
    for start in range(0, len(batches), 6):
        follow(opened.log, *batches[start : start + 6])
        if start % 12 == 0:
            opened.log.sync()
            promised.append(opened.log.end_offset)
            opened.directory.save_checkpoints()


def test_killed_or_powerless_at_any_call_a_follower_has_a_part_of_its_leader_s_log() -> None:
    batches = history(random.Random(3), 40)
    leader = as_leader(MemoryDisk(), batches)
    for crash_at in range(CALLS_MAX):
        disk, promised = MemoryDisk(), [0]
        disk.make_directory("/data")
        disk.sync_directory("/")
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            follow_and_sync(open_log(disk), batches, promised)
        except Crashed:
            pass
        else:
            return
        left = [disk.after_power_loss(random.Random(crash_at * 100 + seed)) for seed in range(4)]
        for one in (disk.after_kill(), *left):
            log = open_log(one).log
            log.check()
            assert log.end_offset >= promised[-1]
            assert stored_bytes(leader).startswith(stored_bytes(log))
            rest = [batch for batch in batches if batch.base_offset >= log.end_offset]
            if rest:
                follow(log, *rest)
            assert state(log) == state(leader)
    pytest.fail(f"the scenario takes more than {CALLS_MAX} calls")
