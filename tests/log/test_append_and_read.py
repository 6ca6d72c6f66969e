"""What is appended is read back, within the bounds that a reader sets."""

import zlib
from pathlib import Path

import pytest

from penstock.log.errors import CorruptLog, OffsetOutOfRange
from penstock.log.partition_log import PartitionLog
from penstock.log.reading import LogSlice, ReadBounds
from penstock.log.scan import find
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.world.disk import RealDisk, remove_all
from rig.logs import NOW_MS, PARTITION, TOPIC_ID, append, make_batch, open_log, read, values
from rig.memory_disk import MemoryDisk

ONE_SEGMENT = TopicSettings(index_interval_bytes=200)


def slice_of(log: PartitionLog, offset: int, **bounds: int) -> LogSlice:
    return log.read(
        ReadBounds(
            from_offset=Offset(offset),
            until_offset=Offset(bounds.get("until_offset", log.end_offset)),
            size_bytes_max=bounds.get("size_bytes_max", 2**20),
            oversized_first=bool(bounds.get("oversized_first", 1)),
            whole_batches=bool(bounds.get("whole_batches", 0)),
        )
    )


@pytest.fixture
def log() -> PartitionLog:
    """Ten batches of three records in one segment."""
    opened = open_log(MemoryDisk(), settings=ONE_SEGMENT)
    for _ in range(10):
        append(opened.log, 3)
    return opened.log


def test_every_record_is_read_back_at_its_offset() -> None:
    log = open_log(MemoryDisk()).log
    for count in (1, 7, 2, 30, 1, 1, 12, 4) * 5:
        append(log, count)
    assert len(log.segments) > 3
    assert values(log) == [(o, str(o).encode()) for o in range(log.end_offset)]


def test_read_from_the_middle_of_a_batch_returns_the_whole_batch(log: PartitionLog) -> None:
    assert [batch.base_offset for batch in read(log, 13, size_bytes_max=1)] == [12]


def test_offset_is_found_among_batches_large_and_small() -> None:
    log = open_log(MemoryDisk(), settings=TopicSettings()).log
    ends: list[int] = []
    # More than the batches whose places the log remembers, so that the index is asked.
    for size_bytes in (20, 20_000, 20, 20, 9_000, 30_000, 3_000, 20) * 20:
        log.append([make_batch(log.end_offset, 2, size_bytes=size_bytes)], now_ms=NOW_MS)
        ends.append(log.end_offset)
    found = [read(log, offset, size_bytes_max=1)[0] for offset in range(log.end_offset)]
    assert [batch.next_offset for batch in found] == [end for end in ends for _ in range(2)]


def test_read_goes_past_a_batch_larger_than_the_limit_only_when_asked(log: PartitionLog) -> None:
    assert read(log, 3, size_bytes_max=10, oversized_first=False) == []
    assert [b.base_offset for b in read(log, 3, size_bytes_max=10)] == [3]


def test_slice_is_as_long_as_the_limit_and_may_cut_its_last_batch(log: PartitionLog) -> None:
    batch_bytes = read(log, 0)[0].size_bytes
    found = slice_of(log, 0, size_bytes_max=batch_bytes * 2 + 10)
    assert found.byte_count == batch_bytes * 2 + 10


@pytest.mark.parametrize("until_offset", [0, 3, 6, 15, 27, 30])
def test_nothing_at_or_beyond_the_until_offset_is_ever_sent(
    log: PartitionLog, until_offset: int
) -> None:
    batches = read(log, 0, until_offset=until_offset, size_bytes_max=2**20)
    assert [b.base_offset for b in batches] == list(range(0, until_offset, 3))
    expected = sum(b.size_bytes for b in batches)
    assert slice_of(log, 0, until_offset=until_offset).byte_count == expected


def test_slice_ends_with_its_segment() -> None:
    log = open_log(MemoryDisk()).log
    while len(log.segments) < 3:
        append(log, 2)
    found = slice_of(log, 0)
    assert found.segment_base_offset == 0
    assert found.byte_count == log.segments[0].size_bytes


def test_a_slice_of_whole_batches_ends_at_the_last_batch_that_fits(log: PartitionLog) -> None:
    ends = {0}
    for batch in log.segments[0].headers():
        ends.add(max(ends) + batch.size_bytes)
    starts = dict(zip(range(0, 30, 3), sorted(ends), strict=False))
    for offset, start in starts.items():
        left = log.segments[0].size_bytes - start
        for size_bytes_max in range(1, left + 10):
            found = slice_of(log, offset, size_bytes_max=size_bytes_max, whole_batches=1)
            fitting = [end for end in ends if start < end <= start + size_bytes_max]
            first = min(end for end in ends if end > start)
            assert start + found.byte_count == max(fitting, default=first)
            refused = slice_of(
                log, offset, size_bytes_max=size_bytes_max, whole_batches=1, oversized_first=0
            )
            assert start + refused.byte_count == max(fitting, default=start)


def test_read_at_the_end_is_empty(log: PartitionLog) -> None:
    assert slice_of(log, 30).span is None


@pytest.mark.parametrize("offset", [-1, 31, 10**9])
def test_offset_outside_the_log_is_refused_with_its_range(log: PartitionLog, offset: int) -> None:
    bounds = ReadBounds(
        from_offset=Offset(offset),
        until_offset=Offset(offset),
        size_bytes_max=1,
        oversized_first=True,
    )
    with pytest.raises(OffsetOutOfRange) as refused:
        log.read(bounds)
    assert (refused.value.start_offset, refused.value.end_offset) == (0, 30)


def test_many_batches_are_written_with_one_call() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    calls = disk.faults.calls
    log.append([make_batch(0, 2), make_batch(2, 2), make_batch(4)], now_ms=NOW_MS)
    assert disk.faults.calls == calls + 1
    assert values(log) == [(o, str(o).encode()) for o in range(5)]


def test_follower_keeps_the_gaps_that_compaction_left_at_its_leader() -> None:
    settings = TopicSettings(segment_bytes=1000, cleanup_policy=frozenset({"compact"}))
    disk = MemoryDisk()
    log = open_log(disk, settings=settings).log
    for base_offset in range(0, 200, 10):
        log.append([make_batch(base_offset)], now_ms=NOW_MS)
    assert read(log, 101)[0].base_offset == 110
    log.abandon()
    again = open_log(disk.after_kill(), settings=settings).log
    assert again.end_offset == 191
    assert [batch.base_offset for batch in again.batches_from(Offset(0))] == list(range(0, 200, 10))


def test_journal_is_read_from_any_offset_on(log: PartitionLog) -> None:
    assert [batch.base_offset for batch in log.batches_from(Offset(16))] == [15, 18, 21, 24, 27]
    assert list(log.batches_from(log.end_offset)) == []


def check_readable(found: LogSlice, disk: RealDisk, elsewhere: Path) -> None:
    """Even when the only descriptor is wanted for other files meanwhile."""
    assert found.span is not None
    others = [disk.open(str(elsewhere / f"{number}"), create=True) for number in range(3)]
    assert len(found.span.file.read_at(found.span.position, found.byte_count)) == found.byte_count
    del others


def test_slice_outlives_the_segment_it_was_cut_from(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=1)
    opened = open_log(disk, str(tmp_path / "data"))
    log = opened.log
    while len(log.segments) < 3:
        append(log, 2)
    found = slice_of(log, 0)
    log.advance_start(log.segments[1].base_offset)
    assert len(log.segments) == 2
    opened.directory.take_removable(now_ms=0)
    remove_all(opened.directory.take_removable(now_ms=NOW_MS))
    check_readable(found, disk, tmp_path)


def test_slice_outlives_the_partition_it_was_cut_from(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=1)
    opened = open_log(disk, str(tmp_path / "data"))
    append(opened.log, 2)
    found = slice_of(opened.log, 0)
    opened.directory.delete_partitions({PARTITION: TOPIC_ID})
    check_readable(found, disk, tmp_path)


def test_bytes_that_the_disk_has_changed_are_reported_with_their_place(log: PartitionLog) -> None:
    log.segments[0].file.write_at(16, b"\x63")  # the magic of the first batch
    with pytest.raises(CorruptLog) as error:
        list(log.batches_from(Offset(0)))
    assert error.value.position == 0


def test_smallest_message_of_the_first_format_is_found_at_the_end() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    append(log, 3)
    body = bytes([0, 0]) + (-1).to_bytes(4, signed=True) * 2  # magic, attributes, no key, no value
    message = zlib.crc32(body).to_bytes(4) + body
    data = (3).to_bytes(8) + len(message).to_bytes(4) + message
    assert len(data) == 26
    file = log.segments[0].file
    position = file.append([data])
    assert find(file, Offset(3), start=0, end=file.size) == (position, 26)
    assert find(file, Offset(4), start=0, end=file.size) is None
