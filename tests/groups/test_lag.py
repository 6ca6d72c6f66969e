"""How far behind a group is: in records, in time, and what it can't catch up with any more."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.lag import Lag, lag
from penstock.model.offset import Offset

OFFSETS = st.integers(0, 50).map(Offset)


def behind(committed: int, *, start: int = 0, end: int = 100, since_ms: int | None = 4_000) -> Lag:
    return lag(
        Offset(committed),
        start_offset=Offset(start),
        end_offset=Offset(end),
        unread_since_ms=since_ms,
        now_ms=10_000,
    )


def test_lag_is_the_distance_to_the_end_and_the_age_of_the_first_unread_record() -> None:
    assert behind(40) == Lag(records=60, missed=0, age_ms=6_000)


def test_group_that_has_read_everything_is_not_behind() -> None:
    assert behind(100, since_ms=None) == Lag(records=0, missed=0, age_ms=0)


def test_records_deleted_unread_are_told_apart() -> None:
    assert behind(10, start=30) == Lag(records=70, missed=20, age_ms=6_000)
    assert behind(10, start=100, since_ms=None) == Lag(records=0, missed=90, age_ms=0)


def test_offset_beyond_the_end_is_no_negative_lag() -> None:
    assert behind(120, since_ms=None) == Lag(records=0, missed=0, age_ms=0)


def test_age_is_unknown_where_the_first_unread_record_is() -> None:
    assert behind(40, since_ms=None).age_ms is None


def test_record_of_the_future_is_new() -> None:
    assert behind(40, since_ms=99_000).age_ms == 0


@given(committed=OFFSETS, bounds=st.tuples(OFFSETS, OFFSETS).map(sorted))
def test_reading_on_never_increases_the_lag(committed: Offset, bounds: list[Offset]) -> None:
    start, end = bounds
    now, later = (
        behind(offset, start=start, end=end).records for offset in (committed, committed + 1)
    )
    assert 0 <= later <= now <= end - start
