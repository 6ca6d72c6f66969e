"""Many seeds on all cores: each worker is a process of its own and takes a few seeds at a time.

Workers are forked from a server process that has imported everything once, and has no threads.
"""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

SEEDS_AT_ONCE = 10
OBJECTS_PER_COLLECTION = 50_000


def over_seeds(
    seeds: range,
    run_one: Callable[[int], Result],
    *,
    module: str,
    workers: int | None = None,
    seeds_at_once: int = SEEDS_AT_ONCE,
) -> Iterator[Result]:
    """What a function of `module` makes of each seed, in the order of the seeds. The workers stop
    when the iterator is closed.
    """
    workers = workers or os.cpu_count() or 1
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__, module])
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_collect_seldom)
    try:
        parts = [seeds[at : at + seeds_at_once] for at in range(0, len(seeds), seeds_at_once)]
        for done in [pool.submit(_run_some, run_one, part) for part in parts]:
            yield from done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _collect_seldom() -> None:
    """A simulation makes many objects that live for one seed: most collections find nothing."""
    gc.freeze()  # what the server process has imported
    gc.set_threshold(OBJECTS_PER_COLLECTION)


def _run_some(run_one: Callable[[int], Result], seeds: range) -> list[Result]:
    return [run_one(seed) for seed in seeds]
