"""Long work off the loop.

`ChildProcess` starts one worker process with the first piece of work, never before, and loads what
that takes only then: start-up is what users wait for, and an idle node is small. The process runs
at the lowest priority and on a disk of its own, and it never outlives the one that started it: a
node that takes up the same directory afterwards is alone in it.
`Inline` runs the work where it stands, for the fixture and for the simulator.
"""

import asyncio
import concurrent.futures
import importlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from types import ModuleType
from typing import TypeVar

from penstock.world.errors import OffloadError
from penstock.world.ports import Disk, Rest

Item = TypeVar("Item")
Result = TypeVar("Result")

CHILD_GONE = "the helper process has ended"


class ChildProcess:
    def __init__(self) -> None:
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._begun = 0

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        pool = self._started()
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
        except concurrent.futures.BrokenExecutor as error:
            if self._pool is pool:
                self._pool = None
            raise OffloadError(CHILD_GONE) from error

    async def run_on_disk(
        self, work: Callable[..., Generator[Item | Rest, None, None]], *arguments: object
    ) -> AsyncGenerator[Item, None]:
        self._begun += 1
        number, pool, child = self._begun, self._started(), _child()
        await self.run(child.begin, number, work, arguments)
        try:
            while (found := await self.run(child.go_on, number)) is not None:
                yield found[0]
        finally:
            # Not waited for: who closes this is in the middle of something else.
            if self._pool is pool:
                pool.submit(child.end, number)

    def close(self) -> None:
        """Ends the child too: what it has half done, the next start clears away."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        for child in list(pool._processes.values()):
            child.kill()
        # A matter of milliseconds now; not waited for, the pool's thread would be met half gone by
        # the end of the interpreter, which complains.
        pool.shutdown(cancel_futures=True)

    def _started(self) -> "concurrent.futures.ProcessPoolExecutor":
        if self._pool is None:
            self._pool = _child().started()
        return self._pool


def _child() -> ModuleType:
    return importlib.import_module("penstock.world.child_process")


class Inline:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def run(self, work: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        return run_inline(work, *arguments)

    def run_on_disk(
        self, work: Callable[..., Generator[Item | Rest, None, None]], *arguments: object
    ) -> AsyncGenerator[Item, None]:
        return run_inline_on_disk(self._disk, work, *arguments)

    def close(self) -> None:
        pass


async def run_inline(work: Callable[..., Result], *arguments: object) -> Result:
    return work(*arguments)


async def run_inline_on_disk(
    disk: Disk, work: Callable[..., Generator[Item | Rest, None, None]], *arguments: object
) -> AsyncGenerator[Item, None]:
    """Other tasks have their turn between any two steps."""
    steps = work(disk, *arguments)
    try:
        for found in steps:
            if isinstance(found, Rest):
                await asyncio.sleep(found.seconds)
            else:
                yield found
    finally:
        steps.close()
