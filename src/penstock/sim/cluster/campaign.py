"""Many seeds of a cluster, and what became of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from penstock.sim.cluster.flaws import ClusterFlaw
from penstock.sim.cluster.run import run_seed
from penstock.sim.seed_figures import SeedFigures
from penstock.sim.workers import over_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterVerdict:
    seed: int
    violation: str | None
    figures: SeedFigures


def cluster_campaign(
    seeds: range,
    *,
    nodes: int,
    replicas: int | None = None,
    flaw: ClusterFlaw | None = None,
    workers: int | None = None,
) -> Iterator[ClusterVerdict]:
    run_one = partial(verdict_of, nodes=nodes, replicas=replicas, flaw=flaw)
    return over_seeds(seeds, run_one, module=__name__, workers=workers)


def verdict_of(
    seed: int, *, nodes: int, replicas: int | None = None, flaw: ClusterFlaw | None = None
) -> ClusterVerdict:
    outcome = run_seed(seed, nodes=nodes, replicas=replicas, flaw=flaw)
    return ClusterVerdict(seed=seed, violation=outcome.violation, figures=outcome.figures)
