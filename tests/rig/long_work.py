"""Long work for tests, in a module that a helper process can import."""

import os
from collections.abc import Generator

from penstock.log.errors import CorruptLog
from penstock.world.ports import Disk, Rest


def count_files(disk: Disk, path: str, until: int) -> Generator[int | Rest, None, None]:
    """Work on files: yields how many there are, and adds one after each answer."""
    try:
        for number in range(until):
            yield Rest()
            yield len(disk.names(path))
            disk.write_whole(f"{path}/{number}", b"")
    finally:
        disk.write_whole(f"{path}/ended", b"")


def fail(disk: Disk) -> Generator[int | Rest, None, None]:
    yield Rest()
    raise CorruptLog("a/b", position=7, reason="not a batch")


def priority(disk: Disk) -> Generator[tuple[int, int] | Rest, None, None]:
    yield os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)
