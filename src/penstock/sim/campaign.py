"""Many seeds of a node that is crashed, and what became of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from penstock.sim.run import run_seed
from penstock.sim.scenario import FaultKind
from penstock.sim.workers import SeedBudget, over_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one seed."""

    seed: int
    violation: str | None
    lives: int
    acks: int
    commits: int  # of transactions
    virtual_ms: int

    @property
    def fault_count(self) -> int:
        """Those that ended a life."""
        return self.lives - 1

    @property
    def acked(self) -> int:
        return self.acks


def campaign(
    budget: SeedBudget, *, kinds: tuple[FaultKind, ...] | None = None, workers: int | None = None
) -> Iterator[Verdict]:
    return over_seeds(budget, partial(_verdict, kinds=kinds), module=__name__, workers=workers)


def _verdict(seed: int, *, kinds: tuple[FaultKind, ...] | None) -> Verdict:
    outcome = run_seed(seed, kinds=kinds)
    return Verdict(
        seed=seed,
        violation=outcome.violation,
        lives=outcome.lives,
        acks=outcome.acks,
        commits=outcome.commits,
        virtual_ms=outcome.virtual_ms,
    )
