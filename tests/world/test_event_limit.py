"""The same event about the same subject is logged so often in a time, and the rest is counted."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.world.event_limit import EventLimit


def test_what_is_beyond_the_limit_is_left_out_and_told_with_the_next_line() -> None:
    limit = EventLimit(lines_max=2, interval_ms=1_000)
    answers = [limit.left_out("a", "x", now_ms=at) for at in (0, 1, 2, 999, 1_000, 1_001, 1_002)]
    assert answers == [0, 0, None, None, 2, 0, None]
    limit.check()


def test_other_subjects_and_events_have_limits_of_their_own() -> None:
    limit = EventLimit(lines_max=1, interval_ms=1_000)
    assert limit.left_out("a", "x", now_ms=0) == 0
    assert limit.left_out("a", "x", now_ms=0) is None
    assert limit.left_out("a", "y", now_ms=0) == 0
    assert limit.left_out("b", "x", now_ms=0) == 0


def test_counts_of_forgotten_subjects_are_told_with_the_next_line_of_the_event() -> None:
    limit = EventLimit(lines_max=1, interval_ms=1_000, subjects_max=2)
    for _ in range(4):
        limit.left_out("a", "x", now_ms=0)
    assert limit.left_out("a", "y", now_ms=0) == 0
    assert limit.left_out("b", "z", now_ms=0) == 0  # of another event: "x" is forgotten for it
    assert limit.left_out("a", "w", now_ms=0) == 3
    limit.check()


def test_an_event_about_ever_new_subjects_is_limited_as_well() -> None:
    limit = EventLimit(event_lines_max=3, interval_ms=1_000)
    answers = [limit.left_out("a", f"group-{at}", now_ms=0) for at in range(10)]
    assert answers == [0, 0, 0, *[None] * 7]
    assert limit.left_out("b", "group", now_ms=0) == 0
    assert limit.left_out("a", "group", now_ms=1_000) == 7


@given(
    moments=st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from("ab"), st.sampled_from("uvwxyz")),
        max_size=200,
    ),
    lines_max=st.integers(1, 3),
    event_lines_max=st.integers(1, 6),
    subjects_max=st.integers(1, 4),
)
def test_every_line_is_written_or_counted(
    moments: list[tuple[int, str, str]], lines_max: int, event_lines_max: int, subjects_max: int
) -> None:
    limit = EventLimit(
        lines_max=lines_max,
        event_lines_max=event_lines_max,
        interval_ms=1_000,
        subjects_max=subjects_max,
    )
    now_ms, written, told = 0, 0, 0
    for pause_ms, event, subject in moments:
        now_ms += pause_ms
        left_out = limit.left_out(event, subject, now_ms=now_ms)
        limit.check()
        if left_out is not None:
            written += 1
            told += left_out
    # What has not been told yet is told by one more line of each, much later.
    for at, (event, subject) in enumerate([(e, s) for e in "ab" for s in "uvwxyz"]):
        told += limit.left_out(event, subject, now_ms=now_ms + 10_000 + at * 2_000) or 0
    for event in "ab":
        told += limit.left_out(event, "another", now_ms=now_ms + 60_000) or 0
    assert written + told == len(moments)
