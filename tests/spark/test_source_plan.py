"""Ranges of a batch: none is read twice, none is left out, and nobody starves."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.plan import (
    ReadRange,
    begins,
    held,
    limited,
    limited_bytes,
    ranges,
    read_beyond,
    record_bytes_of,
    retained,
    split,
    waiting,
)

ID = TopicId(bytes(16))
PLACES = [TopicPartition("t", index) for index in range(6)]


@st.composite
def positions(draw: st.DrawFn) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]]:
    begin, end = {}, {}
    for place in draw(st.lists(st.sampled_from(PLACES), unique=True)):
        begin[place] = Offset(draw(st.integers(0, 1000)))
        end[place] = Offset(begin[place] + draw(st.sampled_from((0, 1, 7, 500, 10**12))))
    return begin, end


def whole(
    begin: dict[TopicPartition, Offset], end: dict[TopicPartition, Offset]
) -> list[ReadRange]:
    return ranges(begin, end, ids={"t": ID})


@given(positions(), st.none() | st.integers(1, 60), st.none() | st.integers(10**10, 10**11))
def test_parts_are_disjoint_and_complete(
    told: tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]],
    parts_min: int | None,
    records_max: int | None,
) -> None:
    begin, end = told
    parts = split(whole(begin, end), parts_min=parts_min, records_max=records_max)
    reached = dict(begin)
    for part in parts:
        assert part.start == reached[part.partition]
        assert part.start < part.end
        assert records_max is None or part.size <= records_max
        reached[part.partition] = part.end
    assert reached == end
    records = waiting(begin, end)
    assert len(parts) >= min(parts_min or 0, records)


@given(positions(), st.integers(2, 60))
def test_the_largest_ranges_are_divided_first(
    told: tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]], parts_min: int
) -> None:
    undivided = whole(*told)
    parts = split(undivided, parts_min=parts_min)
    assert len(parts) == max(len(undivided), min(parts_min, waiting(*told)))
    largest = max((part.size for part in parts), default=0)
    for one in undivided:
        count = sum(part.partition == one.partition for part in parts)
        # Nobody was divided further than into halves of what the largest part still holds.
        assert count == 1 or -(-one.size // (count - 1)) >= largest


@given(positions(), st.integers(1, 10_000))
def test_a_limit_is_kept_and_nobody_starves(
    told: tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]], records_max: int
) -> None:
    begin, end = told
    found = limited(begin, end, records_max=records_max)
    assert set(found) == set(end)
    busy = 0
    for place in end:
        assert begin[place] <= found[place] <= end[place]
        if begin[place] < end[place]:
            busy += 1
            assert found[place] > begin[place]
    assert waiting(begin, found) <= max(records_max, busy) + busy
    if waiting(begin, end) <= records_max:
        assert found == end


@given(positions(), st.integers(1, 10_000))
def test_limited_batches_reach_the_end(
    told: tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]], records_max: int
) -> None:
    begin, end = told
    end = {place: Offset(min(end[place], begin[place] + 500)) for place in end}
    for _ in range(5000):
        if begin == end:
            break
        begin = limited(begin, end, records_max=records_max)
    assert begin == end


@given(positions(), st.lists(st.floats(0.5, 5000), min_size=6, max_size=6), st.integers(1, 10**7))
def test_a_limit_of_bytes_is_kept_and_nobody_starves(
    told: tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]],
    sizes: list[float],
    bytes_max: int,
) -> None:
    begin, end = told
    each = dict(zip(PLACES, sizes, strict=True))
    found = limited_bytes(begin, end, record_bytes=each, bytes_max=bytes_max)
    assert set(found) == set(end)
    at_least = sum(each[place] for place in end if begin[place] < end[place])
    read = sum((found[place] - begin[place]) * each[place] for place in end)
    assert read <= bytes_max * 1.001 + at_least
    for place in end:
        assert begin[place] <= found[place] <= end[place]
        assert found[place] > begin[place] or begin[place] == end[place]


def test_sizes_of_records_are_those_of_their_logs_or_the_usual_one() -> None:
    earliest = {PLACES[0]: Offset(10), PLACES[1]: Offset(0)}
    latest = {PLACES[0]: Offset(110), PLACES[1]: Offset(300), PLACES[2]: Offset(7)}
    sizes = {PLACES[0]: 10_000, PLACES[1]: 3_000}
    found = record_bytes_of(sizes, earliest=earliest, latest=latest)
    assert found == {PLACES[0]: 100, PLACES[1]: 10, PLACES[2]: 13_000 / 400}
    assert set(record_bytes_of({}, earliest=earliest, latest=latest).values()) == {1024}


def test_a_limited_batch_begins_behind_what_retention_has_deleted() -> None:
    begin = {PLACES[0]: Offset(0), PLACES[1]: Offset(5), PLACES[2]: Offset(5)}
    end = {PLACES[0]: Offset(900), PLACES[1]: Offset(9), PLACES[2]: Offset(9)}
    earliest = {PLACES[0]: Offset(800), PLACES[1]: Offset(3), PLACES[2]: Offset(20)}
    found = retained(begin, end, earliest=earliest)
    assert found == {PLACES[0]: 800, PLACES[1]: 5, PLACES[2]: 9}


def test_shares_are_as_sparks_own_source_gives_them() -> None:
    """90 of 300 waiting go to the first; the one with a single record is not rounded away."""
    begin = {PLACES[0]: Offset(0), PLACES[1]: Offset(10), PLACES[2]: Offset(5)}
    end = {PLACES[0]: Offset(900), PLACES[1]: Offset(2110), PLACES[2]: Offset(6)}
    found = limited(begin, end, records_max=100)
    assert found == {PLACES[0]: 29, PLACES[1]: 79, PLACES[2]: 6}


def test_what_is_as_it_was_begins_where_it_ended() -> None:
    start, end = {PLACES[0]: Offset(5)}, {PLACES[0]: Offset(9)}
    found = begins(start, end, earliest={PLACES[0]: Offset(0)})
    assert (found.offsets, found.losses) == (start, ())


def test_a_new_partition_begins_with_its_first_record() -> None:
    start, end = {PLACES[0]: Offset(5)}, {PLACES[0]: Offset(5), PLACES[1]: Offset(3)}
    found = begins(start, end, earliest={PLACES[0]: Offset(0), PLACES[1]: Offset(0)})
    assert (found.offsets, found.losses) == ({PLACES[0]: 5, PLACES[1]: 0}, ())
    found = begins(start, end, earliest={PLACES[0]: Offset(0), PLACES[1]: Offset(2)})
    assert found.offsets[PLACES[1]] == 2
    assert "begins at offset 2 instead of 0" in found.losses[0]


def test_records_gone_by_retention_are_a_loss_and_the_rest_is_read() -> None:
    found = begins({PLACES[0]: Offset(5)}, {PLACES[0]: Offset(9)}, earliest={PLACES[0]: Offset(7)})
    assert found.offsets == {PLACES[0]: 7}
    assert found.losses == ("t-0: offsets 5 to 6 are gone, its log begins at 7",)
    found = begins({PLACES[0]: Offset(5)}, {PLACES[0]: Offset(9)}, earliest={PLACES[0]: Offset(99)})
    assert found.offsets == {PLACES[0]: 9}


def test_what_was_read_beyond_the_last_stable_offset_is_waited_for() -> None:
    """Up to the high watermark: the log has it still."""
    start = {PLACES[0]: Offset(50), PLACES[1]: Offset(3)}
    stable = {PLACES[0]: Offset(30), PLACES[1]: Offset(7)}
    assert read_beyond(start, stable) == (PLACES[0],)
    for high_watermark in (50, 60):
        end = held(start, stable, high_watermarks={PLACES[0]: Offset(high_watermark)})
        assert end == {PLACES[0]: 50, PLACES[1]: 7}
        found = begins(start, end, earliest={PLACES[0]: Offset(0), PLACES[1]: Offset(0)})
        assert (found.offsets, found.losses) == (start, ())
        assert [one.partition for one in whole(found.offsets, end)] == [PLACES[1]]
    # Once the last stable offset is there, reading goes on where it ended.
    later = {PLACES[0]: Offset(55), PLACES[1]: Offset(7)}
    assert read_beyond(start, later) == ()
    assert held(start, later, high_watermarks={}) == later


def test_a_log_that_is_shorter_than_what_was_read_is_a_loss_and_read_on_from_its_end() -> None:
    start, stable = {PLACES[0]: Offset(50)}, {PLACES[0]: Offset(9)}
    end = held(start, stable, high_watermarks={PLACES[0]: Offset(49)})
    assert end == {PLACES[0]: 49}  # above the last stable offset it may have been read
    found = begins(start, end, earliest={PLACES[0]: Offset(0)})
    assert found.offsets == {PLACES[0]: 49}
    assert found.losses == (
        "t-0 was read up to offset 50, and its log ends at 49: its topic was deleted and created"
        " again, or its log was truncated",
    )


def test_offsets_of_a_topic_that_was_made_anew_are_not_waited_for() -> None:
    start, end = {PLACES[0]: Offset(50)}, {PLACES[0]: Offset(9)}
    assert read_beyond(start, end, remade=["t"]) == ()


def test_a_topic_that_was_made_anew_is_a_loss_and_read_from_its_beginning() -> None:
    anew = begins(
        {PLACES[0]: Offset(5)},
        {PLACES[0]: Offset(9)},
        earliest={PLACES[0]: Offset(0)},
        remade=["t"],
    )
    assert anew.offsets == {PLACES[0]: 0}
    assert "deleted and created again" in anew.losses[0]


def test_a_partition_that_is_gone_is_a_loss() -> None:
    found = begins({PLACES[0]: Offset(5)}, {}, earliest={})
    assert found.offsets == {}
    assert "t-0 does not exist any more" in found.losses[0]
