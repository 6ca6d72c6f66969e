"""A long campaign in the background says every now and then how far it has come."""

from io import StringIO

from rich.console import Console

from penstock.cli.sim_progress import shown
from penstock.sim.cluster.campaign import ClusterVerdict
from penstock.sim.seed_figures import SeedFigures


def verdict(seed: int, violation: str | None = None) -> ClusterVerdict:
    figures = SeedFigures(
        seed=seed, virtual_ms=60_000, leader_changes=2, acked=200, steps=1, faults={"kill": 3}
    )
    return ClusterVerdict(seed=seed, violation=violation, figures=figures)


def written(*, every_s: int, terminal: bool = False) -> str:
    """What five seeds write, of which each takes so long; the fourth fails."""
    file = StringIO()
    clock = iter(range(0, 1_000, every_s))
    tried = (verdict(seed, "lost records: 7" if seed == 3 else None) for seed in range(5))
    console = Console(file=file, force_terminal=terminal, width=200)
    seeds = [one.seed for one in shown(tried, 5, console, now_s=lambda: next(clock))]
    assert seeds == [0, 1, 2, 3, 4]
    return file.getvalue()


def test_a_line_says_every_half_minute_what_was_done() -> None:
    assert written(every_s=15).splitlines() == [
        "seeds 2 of 5, failed 0, faults 6, acks 400, seconds 30",
        "seed 3 lost records: 7",
        "seeds 4 of 5, failed 1, faults 12, acks 800, seconds 60",
    ]


def test_a_short_campaign_writes_no_such_line() -> None:
    assert written(every_s=1).splitlines() == ["seed 3 lost records: 7"]


def test_a_terminal_has_a_bar_instead() -> None:
    text = written(every_s=60, terminal=True)
    assert "5/5" in text
    assert "acks" not in text
