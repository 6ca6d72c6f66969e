"""Many seeds, on all cores: each worker is a process of its own and takes a few seeds at a time."""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from penstock.sim.run import run_seed

SEEDS_AT_ONCE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one seed."""

    seed: int
    violation: str | None
    lives: int
    acks: int
    commits: int  # of transactions
    virtual_ms: int


def campaign(seeds: range, *, workers: int | None = None) -> Iterator[Verdict]:
    """The verdicts, in the order in which they come in."""
    workers = workers or os.cpu_count() or 1
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        parts = [seeds[at : at + SEEDS_AT_ONCE] for at in range(0, len(seeds), SEEDS_AT_ONCE)]
        for done in as_completed([pool.submit(run_some, part) for part in parts]):
            yield from done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_some(seeds: range) -> list[Verdict]:
    return [_verdict(seed) for seed in seeds]


def _verdict(seed: int) -> Verdict:
    outcome = run_seed(seed)
    return Verdict(
        seed=seed,
        violation=outcome.violation,
        lives=outcome.lives,
        acks=outcome.acks,
        commits=outcome.commits,
        virtual_ms=outcome.virtual_ms,
    )
