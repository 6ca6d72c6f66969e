"""Long work off the loop.

`ChildProcess` starts one worker process with the first piece of work, never before: start-up is
what users wait for. It runs at the lowest priority and on a disk of its own, and it never outlives
the process that started it: a node that takes up the same directory afterwards is alone in it.
`Inline` runs the work where it stands, for the fixture and for the simulator.
"""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from penstock.world.disk import RealDisk
from penstock.world.errors import OffloadError
from penstock.world.orphans import end_with_parent
from penstock.world.ports import Disk, Rest

Item = TypeVar("Item")
Result = TypeVar("Result")

LOWEST_PRIORITY = 19  # of the processor; the disk follows it, where nobody says otherwise
CHILD_GONE = "the helper process has ended"


class ChildProcess:
    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._begun = 0

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        pool = self._started()
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
        except BrokenProcessPool as error:
            if self._pool is pool:
                self._pool = None
            raise OffloadError(CHILD_GONE) from error

    async def run_on_disk(
        self, work: Callable[..., Generator[Item | Rest, None, None]], *arguments: object
    ) -> AsyncGenerator[Item, None]:
        self._begun += 1
        number, pool = self._begun, self._started()
        await self.run(_begin, number, work, arguments)
        try:
            while (found := await self.run(_go_on, number)) is not None:
                yield found[0]  # type: ignore[misc]  # the child knows it as an object
        finally:
            # Not waited for: who closes this is in the middle of something else.
            if self._pool is pool:
                pool.submit(_end, number)

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

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned, not forked: a fork would copy the loop's descriptors and the locks of its
            # threads.
            self._pool = ProcessPoolExecutor(
                max_workers=1,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_set_up_child,
            )
        return self._pool


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


# What follows runs in the child.

_under_way: dict[int, Generator[object, None, None]] = {}
_disk: RealDisk | None = None


def _set_up_child() -> None:
    os.nice(LOWEST_PRIORITY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    end_with_parent()


def _begin(
    number: int, work: Callable[..., Generator[object, None, None]], arguments: tuple[object, ...]
) -> None:
    global _disk
    if _disk is None:
        _disk = RealDisk()
    _under_way[number] = work(_disk, *arguments)


def _go_on(number: int) -> tuple[object] | None:
    """Works up to the next item, if there is one."""
    for found in _under_way[number]:
        if not isinstance(found, Rest):
            return (found,)
        if found.seconds > 0:
            time.sleep(found.seconds)
    return None


def _end(number: int) -> None:
    steps = _under_way.pop(number, None)
    if steps is not None:
        steps.close()
