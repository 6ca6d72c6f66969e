"""A long campaign in the background says every now and then how far it has come."""

from collections.abc import Iterator
from io import StringIO

from rich.console import Console

from penstock.cli.sim_progress import shown
from penstock.sim.cluster.campaign import ClusterVerdict
from penstock.sim.seed_figures import SeedFigures
from penstock.sim.workers import SeedBudget


def verdict(seed: int, violation: str | None = None) -> ClusterVerdict:
    figures = SeedFigures(
        seed=seed, virtual_ms=60_000, leader_changes=2, acked=200, steps=1, faults={"kill": 3}
    )
    return ClusterVerdict(seed=seed, violation=violation, figures=figures)


FIVE = SeedBudget(seeds=5)


def written(*, every_s: int, terminal: bool = False, budget: SeedBudget = FIVE) -> str:
    """What five seeds write, of which each takes so long; the fourth fails."""
    file = StringIO()
    clock = iter(range(0, 1_000, every_s))
    tried = (verdict(seed, "lost records: 7" if seed == 3 else None) for seed in range(5))
    console = Console(file=file, force_terminal=terminal, width=200)
    seeds = [one.seed for one in shown(tried, budget, console, now_s=lambda: next(clock))]
    assert seeds == [0, 1, 2, 3, 4]
    return file.getvalue()


def test_a_line_says_every_half_minute_what_was_done() -> None:
    assert written(every_s=15).splitlines() == [
        "seeds 2 of 5, virtual hours 0.03, violations 0, faults 6, acks 400, seconds 30",
        "seed 3 lost records: 7",
        "seeds 4 of 5, virtual hours 0.07, violations 1, faults 12, acks 800, seconds 60",
    ]


def test_a_campaign_of_some_minutes_says_how_many_are_over() -> None:
    lines = written(every_s=30, budget=SeedBudget(seconds=600)).splitlines()
    assert lines[0] == (
        "seeds 1, virtual hours 0.02, violations 0, faults 3, acks 200, seconds 30 of 600"
    )


def test_a_short_campaign_writes_no_such_line() -> None:
    assert written(every_s=1).splitlines() == ["seed 3 lost records: 7"]


def test_a_terminal_has_a_bar_instead() -> None:
    text = written(every_s=60, terminal=True)
    assert "seeds 5 of 5, virtual hours 0.08, violations 1" in text
    assert "acks" not in text


def test_ctrl_c_ends_the_campaign_and_keeps_the_verdicts() -> None:
    def tried() -> Iterator[ClusterVerdict]:
        yield verdict(0)
        raise KeyboardInterrupt

    file = StringIO()
    assert [one.seed for one in shown(tried(), FIVE, Console(file=file, width=200))] == [0]
    assert "interrupted: the figures are those of the seeds until now" in file.getvalue()
