"""When a new segment begins, and what is on disk then."""

from dataclasses import replace

import pytest

from penstock.log.offset_index import OffsetIndex
from penstock.log.partition_log import PartitionLog
from penstock.log.time_index import TimeIndex
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from rig.logs import NOW_MS, append, make_batch, open_log, values
from rig.memory_disk import MemoryDisk

FOLDER = "/data/orders-0"


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def put(log: PartitionLog, *, timestamp_ms: int, now_ms: int = NOW_MS) -> None:
    log.append([make_batch(log.end_offset, timestamp_ms=timestamp_ms)], now_ms=now_ms)


def test_segment_ends_before_it_would_grow_beyond_its_size() -> None:
    log = open_log(MemoryDisk(), settings=TopicSettings(segment_bytes=500)).log
    for _ in range(40):
        append(log)
    assert len(log.segments) > 5
    assert all(segment.size_bytes <= 500 for segment in log.segments)


def test_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    log = open_log(MemoryDisk(), settings=TopicSettings(segment_bytes=500)).log
    append(log)
    log.append([make_batch(1, size_bytes=2000)], now_ms=NOW_MS)
    append(log)
    assert bases(log) == [0, 1, 2]


def test_age_is_counted_from_the_first_record_to_the_next_by_their_own_time() -> None:
    log = open_log(MemoryDisk(), settings=TopicSettings(segment_ms=1000)).log
    for timestamp_ms in (5_000, 5_500, 6_000, 6_001, 6_002, 5_000):
        put(log, timestamp_ms=timestamp_ms, now_ms=NOW_MS + timestamp_ms)
    assert bases(log) == [0, 3]


def test_records_without_time_age_by_the_clock() -> None:
    log = open_log(MemoryDisk(), settings=TopicSettings(segment_ms=1000)).log
    for now_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        put(log, timestamp_ms=-1, now_ms=now_ms)
    assert bases(log) == [0, 2]


def test_jitter_shortens_the_age_and_is_the_same_after_a_restart() -> None:
    settings = TopicSettings(segment_ms=100_000, segment_jitter_ms=90_000)

    def rolled_at(disk: MemoryDisk) -> int:
        log = open_log(disk, settings=settings).log
        put(log, timestamp_ms=0)
        for timestamp_ms in range(0, 100_000, 1000):
            if len(log.segments) > 1:
                return timestamp_ms
            put(log, timestamp_ms=timestamp_ms)
        return 100_000

    first = rolled_at(MemoryDisk())
    assert 10_000 <= first < 100_000
    assert rolled_at(MemoryDisk()) == first


def test_full_index_begins_a_new_segment() -> None:
    settings = TopicSettings(index_interval_bytes=1, segment_index_bytes=48)
    log = open_log(MemoryDisk(), settings=settings).log
    for _ in range(20):
        append(log)
    # Three entries of the time index, and one that is kept for the largest timestamp.
    assert bases(log)[:3] == [0, 4, 8]


def test_offset_too_far_from_the_base_begins_a_new_segment() -> None:
    settings = TopicSettings(cleanup_policy=frozenset({"compact"}))
    disk = MemoryDisk()
    log = open_log(disk, settings=settings).log
    log.append([make_batch(2**31 - 1)], now_ms=NOW_MS)
    log.append([make_batch(2**31)], now_ms=NOW_MS)
    assert bases(log) == [0, 2**31]
    log.abandon()
    again = open_log(disk.after_kill(), settings=settings).log
    assert (bases(again), again.end_offset) == ([0, 2**31], 2**31 + 1)


def test_empty_segment_is_left_when_the_first_offset_is_too_far() -> None:
    settings = TopicSettings(cleanup_policy=frozenset({"compact"}))
    disk = MemoryDisk()
    log = open_log(disk, settings=settings).log
    log.append([make_batch(2**33)], now_ms=NOW_MS)
    log.check()
    assert values(open_log(disk.after_kill(), settings=settings).log)[0][0] == 2**33


def test_rolling_an_empty_segment_does_nothing() -> None:
    log = open_log(MemoryDisk()).log
    log.roll()
    append(log)
    log.roll()
    log.roll()
    assert bases(log) == [0, 1]


def test_sealed_segment_has_complete_indexes_and_the_next_one_a_snapshot() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=TopicSettings(index_interval_bytes=200)).log
    for _ in range(30):
        append(log, 2, producer=7)
    log.roll()
    size_bytes = log.segments[0].size_bytes
    offset = OffsetIndex.decode(
        Offset(0), disk.read(f"{FOLDER}/{0:020d}.index"), log_bytes=size_bytes
    )
    time = TimeIndex.decode(Offset(0), disk.read(f"{FOLDER}/{0:020d}.timeindex"))
    assert len(offset) >= size_bytes // 400
    assert time.last() == (NOW_MS + 59, 59)
    assert disk.exists(f"{FOLDER}/{60:020d}.snapshot")


@pytest.mark.parametrize("interval_bytes", [0, 100, 1000, 10**6])
def test_index_of_any_density_finds_every_offset(interval_bytes: int) -> None:
    settings = replace(TopicSettings(), index_interval_bytes=interval_bytes)
    log = open_log(MemoryDisk(), settings=settings).log
    for count in (3, 1, 5) * 8:
        append(log, count)
    log.roll()
    for offset in range(log.end_offset):
        found = log.segments[0].find(Offset(offset))
        assert found is not None
        _, batch = next(log.segments[0].batches(start=found[0]))
        assert batch.base_offset <= offset <= batch.last_offset
        assert batch.size_bytes == found[1]
    assert len(values(log)) == log.end_offset


def test_an_index_filled_under_a_smaller_interval_is_not_overfilled_under_a_larger_one() -> None:
    dense = TopicSettings(index_interval_bytes=0, segment_index_bytes=120)
    log = open_log(MemoryDisk(), settings=dense).log
    for _ in range(9):
        append(log)
    sparse = TopicSettings(index_interval_bytes=300, segment_index_bytes=120)
    log.reconfigure(sparse)
    for _ in range(30):
        append(log)
    log.roll()
    for segment in log.segments[:-1]:
        assert segment.indexes.time.byte_count <= 120
        assert segment.indexes.offset.byte_count <= 120
