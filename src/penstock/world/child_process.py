"""The process that `ChildProcess` of `offload` works in: how it is started, and what it runs."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor

from penstock.world.disk import RealDisk
from penstock.world.orphans import end_with_parent
from penstock.world.ports import Rest

LOWEST_PRIORITY = 19  # of the processor; the disk follows it, where nobody says otherwise


def started() -> ProcessPoolExecutor:
    # Spawned, not forked: a fork would copy the loop's descriptors and the locks of its threads.
    return ProcessPoolExecutor(
        max_workers=1, mp_context=multiprocessing.get_context("spawn"), initializer=_set_up
    )


# What follows runs in the child.

_under_way: dict[int, Generator[object, None, None]] = {}
_disk: RealDisk | None = None


def _set_up() -> None:
    os.nice(LOWEST_PRIORITY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    end_with_parent()


def begin(
    number: int, work: Callable[..., Generator[object, None, None]], arguments: tuple[object, ...]
) -> None:
    global _disk
    if _disk is None:
        _disk = RealDisk()
    _under_way[number] = work(_disk, *arguments)


def go_on(number: int) -> tuple[object] | None:
    """Works up to the next item, if there is one."""
    for found in _under_way[number]:
        if not isinstance(found, Rest):
            return (found,)
        if found.seconds > 0:
            time.sleep(found.seconds)
    return None


def end(number: int) -> None:
    steps = _under_way.pop(number, None)
    if steps is not None:
        steps.close()
