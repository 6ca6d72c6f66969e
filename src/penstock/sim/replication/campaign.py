"""Many seeds of a replicated partition, and what they add up to.

Not compiled: verdicts pass from one process to another, which compiled values do not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from penstock.sim.replication.flaws import ReplicationFlaw
from penstock.sim.replication.run import run_seed
from penstock.sim.workers import SeedBudget, over_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationVerdict:
    """What became of one seed."""

    seed: int
    violation: str | None
    steps: int
    virtual_ms: int
    faults: dict[str, int]  # by kind
    leaders: int
    acked: int
    truncations: int
    forgiven: int
    calm_ms: int

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())


@dataclass(slots=True, kw_only=True)
class ReplicationTally:
    """The figures of a campaign, verdict by verdict."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    steps: int = 0
    virtual_ms: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    leaders: int = 0
    acked: int = 0
    truncations: int = 0
    forgiven: int = 0
    calm_ms_max: int = 0

    def add(self, verdict: ReplicationVerdict) -> None:
        self.seeds += 1
        if verdict.violation is not None:
            self.failed.append(verdict.seed)
        self.steps += verdict.steps
        self.virtual_ms += verdict.virtual_ms
        for kind, count in verdict.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count
        self.leaders += verdict.leaders
        self.acked += verdict.acked
        self.truncations += verdict.truncations
        self.forgiven += verdict.forgiven
        self.calm_ms_max = max(self.calm_ms_max, verdict.calm_ms)


def replication_campaign(
    budget: SeedBudget, *, flaw: ReplicationFlaw | None = None, workers: int | None = None
) -> Iterator[ReplicationVerdict]:
    run_one = partial(replication_verdict, flaw=flaw)
    return over_seeds(budget, run_one, module=__name__, workers=workers)


def replication_verdict(seed: int, *, flaw: ReplicationFlaw | None = None) -> ReplicationVerdict:
    outcome = run_seed(seed, flaw=flaw)
    figures = outcome.figures
    return ReplicationVerdict(
        seed=seed,
        violation=outcome.violation,
        steps=figures.steps,
        virtual_ms=figures.virtual_ms,
        faults=figures.faults,
        leaders=figures.leaders,
        acked=figures.acked,
        truncations=figures.truncations,
        forgiven=figures.forgiven,
        calm_ms=figures.calm_ms,
    )
