"""Randomness."""

import pytest

from penstock.world.entropy import RealEntropy


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 256, 257, 2**31 - 1, 2**63])
def test_numbers_stay_below_their_bound(bound: int) -> None:
    assert all(0 <= RealEntropy().random_below(bound) < bound for _ in range(1000))


def test_every_number_is_drawn() -> None:
    assert {RealEntropy().random_below(5) for _ in range(1000)} == {0, 1, 2, 3, 4}


def test_bytes_differ_from_call_to_call() -> None:
    assert RealEntropy().random_bytes(16) != RealEntropy().random_bytes(16)
