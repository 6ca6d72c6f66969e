"""Many seeds on all cores: each worker is a process of its own and takes a few seeds at a time.

Workers are forked from a server process that has imported everything once, and has no threads.
"""

import gc
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from penstock.world.orphans import end_with_parent

Result = TypeVar("Result")

SEEDS_AT_ONCE = 10
PARTS_AHEAD = 8  # for each worker: one that is done is handed out after those before it
OBJECTS_PER_COLLECTION = 50_000
SEEDS_MAX = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedBudget:
    """Which seeds a campaign runs: so many, or as many as fit into a time, whichever is less."""

    start: int = 0
    seeds: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        assert self.seeds is not None or self.seconds is not None

    @property
    def seeds_max(self) -> range:
        return range(self.start, self.start + (SEEDS_MAX if self.seeds is None else self.seeds))


def over_seeds(
    budget: SeedBudget,
    run_one: Callable[[int], Result],
    *,
    module: str,
    workers: int | None = None,
    seeds_at_once: int = SEEDS_AT_ONCE,
) -> Iterator[Result]:
    """What a function of `module` makes of each seed, in the order of the seeds. When time is up,
    the seeds that run come to their end; when the iterator is closed, they do not.
    """
    ends_s = None if budget.seconds is None else time.monotonic() + budget.seconds
    workers = workers or os.cpu_count() or 1
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__, module])
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare)
    parts = _parts(budget.seeds_max, seeds_at_once)
    under_way: deque[Future[list[Result]]] = deque()
    all_done = False
    try:
        while True:
            left_s = None if ends_s is None else max(0.0, ends_s - time.monotonic())
            if left_s == 0.0:
                parts = iter([])
                under_way = deque(one for one in under_way if not one.cancel())
            while len(under_way) < PARTS_AHEAD * workers and (part := next(parts, None)):
                under_way.append(pool.submit(_run_some, run_one, part))
            if not under_way:
                all_done = True
                break
            try:
                done = under_way[0].result(timeout=left_s or None)
            except TimeoutError:
                continue
            under_way.popleft()
            yield from done
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if not all_done:
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()


def _parts(seeds: range, seeds_at_once: int) -> Iterator[range]:
    for at in range(0, len(seeds), seeds_at_once):
        yield seeds[at : at + seeds_at_once]


def _prepare() -> None:
    """A simulation makes many objects that live for one seed: most collections find nothing. Who
    asks on a terminal for the end asks the process that shows the figures.
    """
    gc.freeze()  # what the server process has imported
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _run_some(run_one: Callable[[int], Result], seeds: range) -> list[Result]:
    return [run_one(seed) for seed in seeds]
