"""What a seed amounted to: how long, how many faults, changes of leader and acked operations.

A campaign is worth what its seeds went through. A seed counts when it reaches every floor of
`WORTH`; the distribution of each figure over all seeds is printed beside how many counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PERCENTILES = (0, 10, 50, 90, 99, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedFigures:
    seed: int
    virtual_ms: int
    leader_changes: int
    acked: int  # operations that a client was told have been done
    steps: int  # of the event loop
    lossy: int = 0  # partitions of which acked records may be gone, as nobody was left who had them
    faults: dict[str, int] = field(default_factory=dict)  # by kind, those that struck

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a seed must reach to count."""

    virtual_ms: int = 60_000
    faults: int = 3
    leader_changes: int = 2
    acked: int = 100

    def reached_by(self, figures: SeedFigures) -> bool:
        return (
            figures.virtual_ms >= self.virtual_ms
            and figures.fault_count >= self.faults
            and figures.leader_changes >= self.leader_changes
            and figures.acked >= self.acked
        )

    def __str__(self) -> str:
        return (
            f"{self.virtual_ms / 1000:g} virtual seconds, {self.faults} faults,"
            f" {self.leader_changes} changes of leader, {self.acked} acked operations"
        )


WORTH = Worth()


def percentile(sorted_values: Sequence[float], percent: int) -> float:
    """The least value that so many percent of them do not exceed."""
    assert sorted_values
    assert 0 <= percent <= 100
    rank = -(-len(sorted_values) * percent // 100)
    return sorted_values[max(rank, 1) - 1]


def distribution(all_figures: Iterable[SeedFigures], worth: Worth = WORTH) -> str:
    """A table for people: a line for each figure, then how many seeds counted."""
    figures = sorted(all_figures, key=lambda one: one.seed)
    if not figures:
        return "no seeds"
    kinds = sorted({kind for one in figures for kind in one.faults})
    rows: list[tuple[str, Sequence[float]]] = [
        ("virtual seconds", [one.virtual_ms / 1000 for one in figures]),
        ("faults", [one.fault_count for one in figures]),
        *((f"  {kind}", [one.faults.get(kind, 0) for one in figures]) for kind in kinds),
        ("changes of leader", [one.leader_changes for one in figures]),
        ("acked operations", [one.acked for one in figures]),
        *_losses(figures),
        ("steps", [one.steps for one in figures]),
    ]
    names = ["min", *(f"p{percent}" for percent in PERCENTILES[1:-1]), "max", "all seeds"]
    lines = [f"{'':<24}" + "".join(f"{name:>11}" for name in names)]
    for name, values in rows:
        ordered = sorted(values)
        cells = [*(percentile(ordered, percent) for percent in PERCENTILES), sum(values)]
        lines.append(f"{name:<24}" + "".join(f"{_shown(cell):>11}" for cell in cells))
    counted = sum(worth.reached_by(one) for one in figures)
    lines.append(f"{counted} of {len(figures)} seeds count: at least {worth}")
    return "\n".join(lines)


def _losses(figures: Sequence[SeedFigures]) -> list[tuple[str, Sequence[float]]]:
    """Only where there may have been any."""
    lossy = [one.lossy for one in figures]
    return [("partitions with losses", lossy)] if any(lossy) else []


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.1f}"
