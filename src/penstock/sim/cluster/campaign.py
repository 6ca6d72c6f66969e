"""Many seeds of a cluster, and what became of each."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial

from penstock.sim.cluster.flaws import ClusterFlaw, refuse_compiled
from penstock.sim.cluster.run import run_seed
from penstock.sim.fault_plan import HostFaultKind
from penstock.sim.seed_figures import SeedFigures
from penstock.sim.workers import SeedBudget, over_seeds

SEEDS_AT_ONCE = 1  # each takes seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVerdict:
    seed: int
    violation: str | None
    figures: SeedFigures

    @property
    def fault_count(self) -> int:
        return self.figures.fault_count

    @property
    def virtual_ms(self) -> int:
        return self.figures.virtual_ms

    @property
    def acked(self) -> int:
        return self.figures.acked


def cluster_campaign(
    budget: SeedBudget,
    *,
    nodes: int,
    replicas: int | None = None,
    kinds: Collection[HostFaultKind] | None = None,
    flaw: ClusterFlaw | None = None,
    workers: int | None = None,
) -> Iterator[ClusterVerdict]:
    if flaw is not None:
        refuse_compiled(flaw)
    run_one = partial(verdict_of, nodes=nodes, replicas=replicas, kinds=kinds, flaw=flaw)
    return over_seeds(
        budget, run_one, module=__name__, workers=workers, seeds_at_once=SEEDS_AT_ONCE
    )


def verdict_of(
    seed: int,
    *,
    nodes: int,
    replicas: int | None = None,
    kinds: Collection[HostFaultKind] | None = None,
    flaw: ClusterFlaw | None = None,
) -> ClusterVerdict:
    outcome = run_seed(seed, nodes=nodes, replicas=replicas, kinds=kinds, flaw=flaw)
    return ClusterVerdict(seed=seed, violation=outcome.violation, figures=outcome.figures)
