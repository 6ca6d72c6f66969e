"""Transactions are whole through crashes at any place, and what once broke them does so no more."""

import gc
import warnings

import pytest

from penstock.sim.crash_points import small_transactions
from penstock.sim.host import Crash
from penstock.sim.run import run_seed
from penstock.sim.scenario import draw

FOUND_BUGS = (
    3,  # a fetch that began at an abort marker hid the committed records behind it
    19,  # with a full disk, markers were reported again and again, and nothing else was done
    1155,  # an identity that a power loss had made the coordinator forget was given out again
    2205,  # an application waited for one that a power loss had made the coordinator forget
    3150,  # that producer ids had run out was told late, and then to the client
)
POINTS = 10  # of each kind
CLIENT_CRASHES_BETWEEN_WRITES = 13


@pytest.mark.parametrize("seed", FOUND_BUGS)
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    assert run_seed(seed, draw(seed)).violation is None


@pytest.mark.parametrize("crash", list(Crash))
def test_no_place_for_a_crash_breaks_a_promise(crash: Crash) -> None:
    """Some of the places; `penstock sim crash SEED` tries all of them."""
    scenario = small_transactions(1)
    without = run_seed(1, scenario)
    assert without.violation is None
    places = without.places
    points = places.points(
        crash=crash,
        call_stride=places.calls // POINTS + 1,
        step_stride=places.steps // POINTS + 1,
    )
    found = {str(point): run_seed(1, scenario, crash_point=point).violation for point in points}
    assert {point: told for point, told in found.items() if told is not None} == {}


def test_a_crashed_client_closes_the_writes_that_it_has_not_begun() -> None:
    gc.collect()
    gc.disable()
    try:
        assert run_seed(CLIENT_CRASHES_BETWEEN_WRITES).violation is None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            gc.collect()
    finally:
        gc.enable()
    assert [str(one.message) for one in warned if "never awaited" in str(one.message)] == []
