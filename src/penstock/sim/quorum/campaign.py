"""Many seeds of the quorum, and what they add up to.

Not compiled: verdicts pass from one process to another, which compiled values do not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from penstock.sim.quorum.flaws import Flaw
from penstock.sim.quorum.run import run_seed
from penstock.sim.workers import SeedBudget, over_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumVerdict:
    """What became of one seed."""

    seed: int
    violation: str | None
    steps: int
    virtual_ms: int
    faults: dict[str, int]  # by kind
    leaders: int
    acked: int
    snapshots_installed: int
    calm_leader_ms: int

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())


@dataclass(slots=True, kw_only=True)
class Tally:
    """The figures of a campaign, verdict by verdict."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    steps: int = 0
    virtual_ms: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    leaders: int = 0
    acked: int = 0
    snapshots_installed: int = 0
    calm_leader_ms: list[int] = field(default_factory=list)

    def add(self, verdict: QuorumVerdict) -> None:
        self.seeds += 1
        if verdict.violation is None:
            self.calm_leader_ms.append(verdict.calm_leader_ms)
        else:
            self.failed.append(verdict.seed)
        self.steps += verdict.steps
        self.virtual_ms += verdict.virtual_ms
        for kind, count in verdict.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count
        self.leaders += verdict.leaders
        self.acked += verdict.acked
        self.snapshots_installed += verdict.snapshots_installed

    def leader_ms_percentile(self, percent: int) -> int | None:
        """The time from the start of calm to the leader, which so many percent of seeds keep."""
        ordered = sorted(self.calm_leader_ms)
        return ordered[(len(ordered) - 1) * percent // 100] if ordered else None


def quorum_campaign(
    budget: SeedBudget, *, flaw: Flaw | None = None, workers: int | None = None
) -> Iterator[QuorumVerdict]:
    run_one = partial(verdict_of, flaw=flaw)
    return over_seeds(budget, run_one, module=__name__, workers=workers)


def verdict_of(seed: int, *, flaw: Flaw | None = None) -> QuorumVerdict:
    outcome = run_seed(seed, flaw=flaw)
    figures = outcome.figures
    return QuorumVerdict(
        seed=seed,
        violation=outcome.violation,
        steps=figures.steps,
        virtual_ms=figures.virtual_ms,
        faults=figures.faults,
        leaders=figures.leaders,
        acked=figures.acked,
        snapshots_installed=figures.snapshots_installed,
        calm_leader_ms=figures.calm_leader_ms,
    )
