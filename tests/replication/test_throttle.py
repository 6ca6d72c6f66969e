"""What replicas that are out of sync are sent keeps to a rate, whatever the sizes of batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.identity import NodeId
from penstock.replication.throttle import CREDIT_MS_MAX, ReplicationThrottle, is_listed

NODE = NodeId(2)


@pytest.mark.parametrize(
    ("replicas", "listed"),
    [((), False), (("*",), True), (("0:2",), True), (("1:2", "0:3"), False)],
)
def test_a_setting_names_replicas_or_all(replicas: tuple[str, ...], listed: bool) -> None:
    assert is_listed(replicas, partition=0, node=NODE) == listed


def limited(rate: int) -> ReplicationThrottle:
    throttle = ReplicationThrottle()
    throttle.limit(rate, now_ms=0)
    return throttle


def test_more_than_there_is_room_for_is_paid_for_afterwards() -> None:
    throttle = limited(1_000)
    assert throttle.room_bytes(now_ms=100) == 100
    throttle.passed(1_100, now_ms=100)
    assert throttle.wait_ms(now_ms=100) == 1_001
    assert throttle.room_bytes(now_ms=1_100) == 0
    assert throttle.room_bytes(now_ms=1_200) == 100


def test_what_was_not_used_is_kept_for_a_moment() -> None:
    throttle = limited(1_000)
    assert throttle.room_bytes(now_ms=500) == 500
    assert throttle.room_bytes(now_ms=60_000) == CREDIT_MS_MAX


def test_a_new_rate_begins_anew_and_the_same_one_goes_on() -> None:
    throttle = limited(1_000)
    throttle.passed(10_000, now_ms=0)
    throttle.limit(1_000, now_ms=10)
    assert throttle.wait_ms(now_ms=10) > 9_000
    throttle.limit(2_000, now_ms=10)
    assert throttle.room_bytes(now_ms=20) == 20


def test_with_a_rate_of_zero_nothing_passes() -> None:
    throttle = limited(0)
    assert throttle.room_bytes(now_ms=10_000) == 0
    throttle.passed(100, now_ms=10_000)
    assert throttle.wait_ms(now_ms=10_000) > 0


@given(
    rate=st.integers(10_000, 10**8),
    batches=st.lists(st.integers(1, 10**6), min_size=50, max_size=200),
    waits_ms=st.lists(st.integers(0, 500), min_size=1, max_size=20),
)
def test_the_mean_is_the_rate(rate: int, batches: list[int], waits_ms: list[int]) -> None:
    """With somebody who always has more to send, and looks again soon after it may."""
    throttle = limited(rate)
    now_ms, total = 0, 0
    for index, byte_count in enumerate(batches):
        while throttle.wait_ms(now_ms=now_ms):
            now_ms += max(throttle.wait_ms(now_ms=now_ms), waits_ms[index % len(waits_ms)])
        throttle.passed(byte_count, now_ms=now_ms)
        total += byte_count
    # The last batch is not paid for yet, and what was not used last may still be.
    assert total - batches[-1] <= rate * now_ms / 1000
    assert total >= rate * (now_ms - 2 * CREDIT_MS_MAX) / 1000
