"""A window tells what counters have grown by lately, not since the start."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.alerts.window import READINGS_PER_WINDOW, Window

LENGTH_MS = 3_200


def test_growth_leaves_the_window_when_it_is_old() -> None:
    window = Window(2, length_ms=LENGTH_MS, now_ms=0)
    assert window.look((5, 1), now_ms=1_000) == (5, 1)
    assert window.look((9, 1), now_ms=2_000) == (9, 1)
    assert window.look((9, 1), now_ms=3_200) == (9, 1)
    assert window.look((9, 1), now_ms=3_201) == (4, 0)
    assert window.look((9, 1), now_ms=4_200) == (4, 0)
    assert window.look((9, 1), now_ms=4_201) == (0, 0)


def test_what_was_counted_before_the_first_look_is_growth() -> None:
    assert Window(1, length_ms=LENGTH_MS, now_ms=0).look((7,), now_ms=0) == (7,)


def test_a_look_after_a_long_time_sees_what_came_since_the_last_one() -> None:
    window = Window(1, length_ms=LENGTH_MS, now_ms=0)
    window.look((7,), now_ms=1_000)
    assert window.look((9,), now_ms=100_000) == (2,)


@given(st.integers(1, 5_000), st.lists(st.integers(0, 700), min_size=1, max_size=300))
def test_a_window_is_as_long_as_asked_for_and_hardly_shorter(
    length_ms: int, steps: list[int]
) -> None:
    """The counter is the time itself, so its growth is the length of the window."""
    window = Window(1, length_ms=length_ms, now_ms=0)
    now_ms = 0
    for step in steps:
        now_ms += step
        [grown] = window.look((now_ms,), now_ms=now_ms)
        shortest = length_ms - length_ms // READINGS_PER_WINDOW - 2 * max(steps)
        assert grown >= min(shortest, now_ms)
        assert grown <= max(length_ms, length_ms // READINGS_PER_WINDOW + 2 * max(steps))


@given(st.integers(1, 5_000), st.integers(1, 700), st.integers(0, 9_000))
def test_what_was_counted_once_is_within_the_window_for_its_length_at_most(
    length_ms: int, step_ms: int, error_ms: int
) -> None:
    window = Window(1, length_ms=length_ms, now_ms=0)
    seen: list[int] = []
    for now_ms in range(0, error_ms + 3 * length_ms + 3 * step_ms, step_ms):
        if window.look((int(now_ms >= error_ms),), now_ms=now_ms) == (1,):
            seen.append(now_ms)
    assert seen
    assert seen[-1] - seen[0] <= max(length_ms, step_ms)
