"""What retention by size and by age takes of a log, and what it never does."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.retention import Expired, find_expired
from penstock.model.offset import Offset
from penstock.model.settings.topic import TopicSettings
from rig.logs import NOW_MS, PARTITION, append, make_batch, open_log, values
from rig.memory_disk import MemoryDisk

HOUR_MS = 3_600_000
KEEP_ALL = TopicSettings(retention_ms=-1)


@dataclass(frozen=True, slots=True)
class Facts:
    base_offset: Offset
    size_bytes: int
    latest_ms: int


def facts(*segments: tuple[int, int]) -> list[Facts]:
    """Size and age of each; every segment has ten offsets."""
    return [
        Facts(Offset(slot * 10), size_bytes, NOW_MS - age_ms)
        for slot, (size_bytes, age_ms) in enumerate(segments)
    ]


def expired(
    segments: list[Facts],
    settings: TopicSettings,
    *,
    start_offset: int = 0,
    high_watermark: int | None = None,
) -> Expired | None:
    end_offset = Offset(len(segments) * 10)
    return find_expired(
        segments,
        start_offset=Offset(start_offset),
        end_offset=end_offset,
        high_watermark=end_offset if high_watermark is None else Offset(high_watermark),
        settings=settings,
        now_ms=NOW_MS,
    )


def start_after(segments: list[Facts], settings: TopicSettings, **rest: int) -> int:
    found = expired(segments, settings, **rest)
    return rest.get("start_offset", 0) if found is None else found.start_offset


def by_time(retention_ms: int) -> TopicSettings:
    return TopicSettings(retention_ms=retention_ms)


def by_size(retention_bytes: int) -> TopicSettings:
    return TopicSettings(retention_ms=-1, retention_bytes=retention_bytes)


def test_segments_older_than_the_limit_go() -> None:
    segments = facts((100, 5000), (100, 3001), (100, 3000), (100, 0))
    assert start_after(segments, by_time(3000)) == 20


def test_a_young_segment_keeps_the_old_ones_behind_it() -> None:
    assert start_after(facts((100, 10), (100, 9000), (100, 9000)), by_time(3000)) == 0


def test_by_age_the_active_segment_goes_too_unless_it_is_empty() -> None:
    assert start_after(facts((100, 9000), (100, 9000)), by_time(3000)) == 20
    assert start_after(facts((100, 9000), (0, 9000)), by_time(3000)) == 10


def test_a_timestamp_in_the_future_keeps_its_segment() -> None:
    assert start_after(facts((100, -HOUR_MS), (100, 9000)), by_time(0)) == 0


def test_what_stays_has_the_size_that_is_asked_for() -> None:
    segments = facts((100, 0), (100, 0), (100, 0))
    assert start_after(segments, by_size(201)) == 0
    assert start_after(segments, by_size(200)) == 10
    assert start_after(segments, by_size(101)) == 10
    assert start_after(segments, by_size(100)) == 20
    assert start_after(segments, by_size(1)) == 20


def test_a_size_of_nothing_keeps_nothing() -> None:
    assert start_after(facts((100, 0), (100, 0)), by_size(0)) == 20


def test_age_goes_on_where_size_ends() -> None:
    segments = facts((100, 0), (100, 9000), (100, 9000), (100, 0))
    both = TopicSettings(retention_ms=3000, retention_bytes=300)
    found = expired(segments, both)
    assert found == Expired(
        start_offset=Offset(30), surplus_segments=1, old_segments=2, size_bytes=300
    )


def test_nothing_above_the_high_watermark_goes() -> None:
    segments = facts((100, 9000), (100, 9000), (100, 9000))
    assert start_after(segments, by_time(0), high_watermark=29) == 20
    assert start_after(segments, by_time(0), high_watermark=9) == 0


def test_what_was_deleted_before_does_not_count_as_size() -> None:
    segments = facts((100, 0), (100, 0), (100, 0))
    assert start_after(segments, by_size(200), start_offset=10) == 10
    assert start_after(segments, by_size(150), start_offset=15) == 15
    assert start_after(segments, by_size(100), start_offset=15) == 20


def test_policies_without_delete_and_limits_below_zero_keep_everything() -> None:
    segments = facts((100, 9000), (100, 9000))
    for policy in (frozenset[str](), frozenset({"compact"})):
        settings = TopicSettings(cleanup_policy=policy, retention_ms=0, retention_bytes=0)
        assert expired(segments, settings) is None
    assert expired(segments, TopicSettings(retention_ms=-1, retention_bytes=-5)) is None
    both = TopicSettings(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=0)
    assert start_after(segments, both) == 20


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(-50, 500)), min_size=1, max_size=8),
    st.integers(-1, 400),
    st.integers(-1, 1200),
    st.data(),
)
def test_only_what_a_limit_asks_for_goes_and_all_of_that(
    shape: list[tuple[int, int]], retention_ms: int, retention_bytes: int, data: st.DataObject
) -> None:
    segments = facts(*shape)
    end = len(segments) * 10
    high_watermark = data.draw(st.integers(0, end))
    start = data.draw(st.integers(0, high_watermark))
    settings = TopicSettings(retention_ms=retention_ms, retention_bytes=retention_bytes)
    new_start = start_after(segments, settings, start_offset=start, high_watermark=high_watermark)
    assert start <= new_start <= high_watermark

    def may_go(slot: int) -> bool:
        """Judged by itself, everything before it being gone."""
        left = sum(one.size_bytes for one in segments[slot + 1 :])
        surplus = 0 <= retention_bytes <= left
        old = 0 <= retention_ms < NOW_MS - segments[slot].latest_ms
        is_last = slot == len(segments) - 1
        return (slot + 1) * 10 <= high_watermark and (
            (surplus or old) and not (is_last and segments[slot].size_bytes == 0)
        )

    gone = [slot for slot in range(len(segments)) if start < (slot + 1) * 10 <= new_start]
    assert all(may_go(slot) for slot in gone)
    # Size is looked at before age and not again after it.
    once_more = start_after(
        segments, settings, start_offset=new_start, high_watermark=high_watermark
    )
    assert once_more == new_start or retention_bytes >= 0


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    disk = MemoryDisk()
    log = open_log(disk).log
    log.append([make_batch(0, timestamp_ms=-1)], now_ms=NOW_MS)
    disk.files[log.segments[0].file.path].modified_ms = NOW_MS - 5000
    assert log.segments[0].latest_ms == NOW_MS - 5000
    log.append([make_batch(1, timestamp_ms=NOW_MS - 7000)], now_ms=NOW_MS)
    assert log.segments[0].latest_ms == NOW_MS - 7000


def test_the_age_of_a_sealed_segment_is_known_after_a_restart() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    append(opened.log, 3)
    opened.log.roll()
    opened.directory.close()
    assert open_log(disk).log.segments[0].latest_ms == NOW_MS + 2


def test_on_a_full_disk_segments_go_by_their_names_alone() -> None:
    disk = MemoryDisk()
    opened = open_log(disk)
    for _ in range(40):
        append(opened.log)
    opened.directory.save_checkpoints()
    start = opened.log.segments[2].base_offset
    disk.faults.full = True
    while opened.log.advance_by_name(start):
        pass
    opened.log.check()
    assert opened.log.start_offset == start
    assert opened.log.partition == PARTITION
    disk.faults.full = False
    again = open_log(disk.after_kill()).log
    assert [offset for offset, _ in values(again)] == list(range(start, 40))
