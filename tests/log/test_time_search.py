"""Offsets by time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from rig.logs import NOW_MS, open_log
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
