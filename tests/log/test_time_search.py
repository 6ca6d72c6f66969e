"""Offsets by time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import CorruptLog
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from rig.logs import NOW_MS, append, open_log
from rig.memory_disk import MemoryDisk

SMALL = TopicSettings(segment_bytes=700, index_interval_bytes=100)
TIMES = st.lists(
    st.tuples(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.sampled_from(Codec)),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(batches=TIMES, start=st.integers(0, 12), restart=st.booleans())
def test_first_record_at_or_after_a_time_is_found(
    batches: list[tuple[list[int], Codec]], start: int, restart: bool
) -> None:
    disk = MemoryDisk()
    opened = open_log(disk, settings=SMALL)
    log = opened.log
    records: list[tuple[int, int]] = []  # time, offset
    for times, codec in batches:
        base_offset = log.end_offset
        records += [(time, base_offset + delta) for delta, time in enumerate(times)]
        data = build_batch(
            [Record(None, b"x" * 60, timestamp_ms=time) for time in times],
            base_offset=base_offset,
            codec=codec,
        )
        log.append([BatchView(memoryview(data))], now_ms=NOW_MS)
    log.advance_start(min(Offset(start), log.end_offset))
    if restart:
        opened.directory.close()
        log = open_log(disk, settings=SMALL).log
    kept = [one for one in records if one[1] >= log.start_offset]
    for wanted in range(52):
        expected = next((one for one in kept if one[0] >= wanted), None)
        found = log.offset_at_time(wanted)
        assert (found and (found.timestamp_ms, found.offset)) == expected


def test_record_with_the_largest_timestamp_is_found_in_any_segment() -> None:
    log = open_log(MemoryDisk(), settings=SMALL).log
    assert log.offset_of_max_timestamp() is None
    for times in ([1, 2], [5, 99, 3], [4], [99], [7], [8], [9], [10], [11], [12]):
        data = build_batch(
            [Record(None, b"x" * 60, timestamp_ms=time) for time in times],
            base_offset=log.end_offset,
        )
        log.append([BatchView(memoryview(data))], now_ms=NOW_MS)
    assert len(log.segments) > 1
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (99, 3)


def test_damaged_batch_met_by_a_search_for_a_time_is_told_as_a_corrupt_log() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=SMALL).log
    data = build_batch(
        [Record(None, bytes(60), timestamp_ms=time) for time in range(50)], codec=Codec.LZ4
    )
    log.append([BatchView(memoryview(data))], now_ms=NOW_MS)
    stored = disk.files["/data/orders-0/00000000000000000000.log"].data
    for position in range(70, 90):
        stored[position] ^= 0xFF
    with pytest.raises(CorruptLog):
        log.offset_at_time(1)
    with pytest.raises(CorruptLog):
        log.offset_of_max_timestamp()


@pytest.mark.parametrize("relative_offset", [1, 1_000_000])
def test_time_index_that_lies_about_the_largest_timestamp_is_built_anew(
    relative_offset: int,
) -> None:
    disk = MemoryDisk()
    opened = open_log(disk, settings=SMALL)
    for _ in range(20):
        append(opened.log)
    opened.directory.close()
    lie = (2**50).to_bytes(8) + relative_offset.to_bytes(4)
    disk.files["/data/orders-0/00000000000000000000.timeindex"].data[:] = lie
    log = open_log(disk, settings=SMALL).log
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert found.offset == 19
    assert disk.read("/data/orders-0/00000000000000000000.timeindex") != lie
