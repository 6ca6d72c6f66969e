"""Long work off the loop.

`ChildProcess` starts one worker process with the first piece of work, never before: start-up is
what users wait for. `Inline` runs the work where it stands, for the fixture and for the
simulator.
"""

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class ChildProcess:
    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def run(self, work: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        if self._pool is None:
            # Spawned, not forked: a fork would copy the loop's descriptors and the locks of its
            # threads.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(max_workers=1, mp_context=context)
        return asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


class Inline:
    def run(self, work: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        return run_inline(work, *arguments)

    def close(self) -> None:
        pass


async def run_inline(work: Callable[..., Result], *arguments: object) -> Result:
    return work(*arguments)
