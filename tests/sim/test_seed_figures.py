"""A campaign prints what its seeds amounted to, and how many of them count."""

from dataclasses import replace

import pytest

from penstock.sim.seed_figures import WORTH, SeedFigures, Worth, distribution, percentile

GOOD = SeedFigures(
    seed=1,
    virtual_ms=60_000,
    leader_changes=2,
    acked=100,
    steps=5_000,
    faults={"kill": 2, "pause": 1},
)


def test_a_seed_counts_when_it_reaches_every_floor() -> None:
    assert WORTH.reached_by(GOOD)


@pytest.mark.parametrize(
    "short",
    [
        replace(GOOD, virtual_ms=59_999),
        replace(GOOD, leader_changes=1),
        replace(GOOD, acked=99),
        replace(GOOD, faults={"kill": 2}),
    ],
    ids=["time", "leaders", "acks", "faults"],
)
def test_a_seed_that_falls_short_in_one_figure_does_not_count(short: SeedFigures) -> None:
    assert not WORTH.reached_by(short)


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1), (1, 1), (10, 1), (50, 5), (90, 9), (91, 10), (100, 10)]
)
def test_a_percentile_is_one_of_the_values(percent: int, value: int) -> None:
    assert percentile(range(1, 11), percent) == value


def test_the_distribution_has_a_line_for_each_figure_and_each_kind_of_fault() -> None:
    figures = [
        replace(GOOD, seed=seed, acked=100 * seed, faults={"kill": 3, "pause": seed % 2})
        for seed in range(4)
    ]
    assert distribution(reversed(figures)).splitlines() == [
        "                                min        p10        p50        p90        p99"
        "        max  all seeds",
        "virtual seconds                60.0       60.0       60.0       60.0       60.0"
        "       60.0      240.0",
        "faults                            3          3          3          4          4"
        "          4         14",
        "  kill                            3          3          3          3          3"
        "          3         12",
        "  pause                           0          0          0          1          1"
        "          1          2",
        "changes of leader                 2          2          2          2          2"
        "          2          8",
        "acked operations                  0          0        100        300        300"
        "        300        600",
        "steps                          5000       5000       5000       5000       5000"
        "       5000      20000",
        "3 of 4 seeds count: at least 60 virtual seconds, 3 faults, 2 changes of leader,"
        " 100 acked operations",
    ]


def test_the_distribution_names_losses_where_there_may_have_been_any() -> None:
    told = distribution([GOOD, replace(GOOD, seed=2, lossy=4)]).splitlines()
    assert [line.split()[-1] for line in told if "with losses" in line] == ["4"]


def test_other_floors_can_be_asked_for() -> None:
    told = distribution([GOOD], Worth(virtual_ms=90_000)).splitlines()[-1]
    assert told.startswith("0 of 1 seeds count: at least 90 virtual seconds")


def test_no_seeds_have_no_distribution() -> None:
    assert distribution([]) == "no seeds"
