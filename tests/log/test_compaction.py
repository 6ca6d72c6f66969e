"""A compacted log keeps the latest value of each key, at the offset it always had."""

from dataclasses import replace

import pytest

from penstock.log.compaction.plan import dirt_of
from penstock.log.partition_log import PartitionLog
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from rig.compacting import COMPACTED, clean, put, seal, state, stored
from rig.logs import NOW_MS, open_log, read
from rig.memory_disk import MemoryDisk

DAY_MS = 86_400_000


def test_latest_value_of_each_key_stays_at_its_offset() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"), ("bob", "1"), ("eve", "1"))
    put(log, ("ada", "2"))
    put(log, ("bob", "2"), ("ada", "3"))
    seal(log)
    put(log, ("ada", "4"))  # the active segment
    assert clean(disk, log) == 6
    assert stored(log) == [(2, "eve", "1"), (4, "bob", "2"), (5, "ada", "3"), (6, "ada", "4")]
    assert log.end_offset == 7


def test_reader_in_a_gap_goes_on_with_the_next_record() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    for number in range(50):
        put(log, ("ada", str(number)))
    seal(log)
    clean(disk, log)
    for offset in range(50):
        found = offset
        while found < 49:
            [batch, *_] = read(log, found)
            assert batch.last_offset >= found
            found = batch.next_offset
        assert [one.last_offset for one in read(log, 49)] == [49]


def test_untouched_batches_stay_byte_for_byte() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    kept = [bytes(put(log, (f"key {n}", "x")).view) for n in range(5)]
    put(log, ("other", "1"))
    put(log, ("other", "2"))
    seal(log)
    clean(disk, log)
    assert [bytes(batch.view) for batch in log.batches_from(Offset(0))][:5] == kept


@pytest.mark.parametrize("codec", list(Codec))
def test_batch_is_compressed_as_before(codec: Codec) -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1" * 100), ("bob", "1" * 100), ("ada", "2" * 100), codec=codec)
    seal(log)
    clean(disk, log)
    [batch] = log.batches_from(Offset(0))
    assert batch.codec is codec
    assert batch.checksum_matches()
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (0, 2, 2)
    assert stored(log) == [(1, "bob", "1" * 100), (2, "ada", "2" * 100)]


def test_times_are_those_of_what_is_left() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"), now_ms=NOW_MS + 100)
    put(log, ("bob", "1"), now_ms=NOW_MS)
    put(log, ("ada", "2"), now_ms=NOW_MS + 50)
    seal(log)
    clean(disk, log)
    assert log.segments[0].largest_timestamp == (NOW_MS + 50, 2)
    found = log.offset_at_time(NOW_MS + 10)
    assert found is not None and found.offset == 2


def test_tombstone_is_kept_for_its_time_and_then_goes() -> None:
    disk = MemoryDisk()
    settings = TopicSettings(
        cleanup_policy=frozenset({"compact"}), segment_bytes=1000, delete_retention_ms=DAY_MS
    )
    log = open_log(disk, settings=settings).log
    put(log, ("ada", "1"), ("bob", "1"))
    put(log, ("ada", None), now_ms=NOW_MS - 5 * DAY_MS)
    seal(log)
    clean(disk, log)
    assert stored(log) == [(1, "bob", "1"), (2, "ada", None)]
    *_, batch = log.batches_from(Offset(0))
    assert batch.delete_horizon_ms == NOW_MS + DAY_MS
    assert batch.max_timestamp == NOW_MS - 5 * DAY_MS

    put(log, ("eve", "1"))
    seal(log)
    clean(disk, log, now_ms=NOW_MS + DAY_MS - 1)
    assert (2, "ada", None) in stored(log)
    put(log, ("eve", "2"))
    seal(log)
    clean(disk, log, now_ms=NOW_MS + DAY_MS)
    assert stored(log) == [(1, "bob", "1"), (4, "eve", "2")]


def test_records_without_a_key_go() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    data = build_batch(
        [Record(None, b"from before", timestamp_ms=NOW_MS), Record(b"ada", b"1", timestamp_ms=1)]
    )
    log.append([BatchView(memoryview(data))], now_ms=NOW_MS)
    seal(log)
    clean(disk, log)
    assert stored(log) == [(1, "ada", "1")]


def test_small_segments_become_one() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    for number in range(100):
        put(log, (f"key {number % 5}", "x" * 50))
    seal(log)
    assert len(log.segments) > 10
    clean(disk, log)
    clean(disk, log)  # small ones now, which have room beside each other
    clean(disk, log)
    assert len(log.segments) == 2
    names = [name for name in disk.names("/data/orders-0") if name.endswith(".log")]
    assert names == [f"{segment.base_offset:020d}.log" for segment in log.segments]


def test_active_segment_is_never_compacted() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"))
    put(log, ("ada", "2"))
    log.sync()
    dirt = dirt_of(log, cleaned_offset=None, stable_offset=log.end_offset, now_ms=NOW_MS)
    assert dirt.dirty_bytes == 0


def test_unsynced_and_unstable_segments_wait() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"))
    seal(log)
    put(log, ("ada", "2"))
    log.roll()
    assert _until(log.end_offset, log) == 1  # the second segment is not synced
    log.sync()
    assert _until(log.end_offset, log) == 2
    assert _until(Offset(1), log) == 1


def test_young_records_wait_for_the_compaction_lag() -> None:
    disk = MemoryDisk()
    settings = TopicSettings(cleanup_policy=frozenset({"compact"}), min_compaction_lag_ms=1000)
    log = open_log(disk, settings=settings).log
    put(log, ("ada", "1"), now_ms=NOW_MS)
    seal(log)
    put(log, ("ada", "2"), now_ms=NOW_MS + 500)
    seal(log)
    assert _until(log.end_offset, log, now_ms=NOW_MS + 999) == 0
    assert _until(log.end_offset, log, now_ms=NOW_MS + 1000) == 1
    assert _until(log.end_offset, log, now_ms=NOW_MS + 1500) == 2


def test_old_records_are_overdue_whatever_the_ratio() -> None:
    disk = MemoryDisk()
    settings = TopicSettings(
        cleanup_policy=frozenset({"compact"}),
        max_compaction_lag_ms=1000,
        min_cleanable_dirty_ratio=1.0,
    )
    log = open_log(disk, settings=settings).log
    put(log, ("ada", "1"), now_ms=NOW_MS)
    seal(log)
    for now_ms, worth in ((NOW_MS + 1000, False), (NOW_MS + 1001, True)):
        dirt = dirt_of(log, cleaned_offset=None, stable_offset=log.end_offset, now_ms=now_ms)
        assert dirt.overdue == worth == dirt.is_worth_it(settings)


def test_dirt_is_what_came_since_the_last_pass() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1" * 100))
    seal(log)
    cleaned = clean(disk, log)
    put(log, ("bob", "1" * 100))
    seal(log)
    dirt = dirt_of(log, cleaned_offset=cleaned, stable_offset=log.end_offset, now_ms=NOW_MS)
    assert dirt.first_dirty_offset == 1
    assert dirt.ratio == pytest.approx(0.5)
    # A checkpoint that cannot be this log's.
    dirt = dirt_of(log, cleaned_offset=Offset(99), stable_offset=log.end_offset, now_ms=NOW_MS)
    assert dirt.first_dirty_offset == 0


def test_several_passes_where_the_memory_is_small() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    updates = [(f"key {number * 7 % 31}", str(number)) for number in range(200)]
    for at in range(0, 200, 4):
        put(log, *updates[at : at + 4])
    seal(log)
    cleaned, passes = Offset(0), 0
    while cleaned < 200:
        before, cleaned = cleaned, clean(disk, log, cleaned_offset=cleaned, memory_bytes=8 * 24)
        assert cleaned > before
        passes += 1
        assert state(log) == dict(updates)
    assert passes > 5
    assert len(stored(log)) < 200


def _until(stable_offset: Offset, log: PartitionLog, *, now_ms: int = NOW_MS) -> int:
    return dirt_of(
        log,
        cleaned_offset=None,
        stable_offset=stable_offset,
        now_ms=now_ms,
    ).until_offset


def test_log_that_starts_within_an_unsynced_segment_is_not_worth_a_pass() -> None:
    eager = replace(COMPACTED, min_cleanable_dirty_ratio=0.01)
    log = open_log(MemoryDisk(), settings=eager).log
    put(log, ("ada", "1"))
    put(log, ("ada", "2"))
    log.roll()
    put(log, ("ada", "3"))
    log.advance_start(Offset(1))
    assert log.recovery_point < 2
    dirt = dirt_of(log, cleaned_offset=None, stable_offset=log.end_offset, now_ms=NOW_MS)
    assert not dirt.is_worth_it(log.settings)
