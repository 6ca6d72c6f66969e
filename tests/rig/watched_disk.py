"""The real disk, watched: syncs are counted, and wait or fail when a test says so."""

import asyncio
from collections.abc import Sequence

from penstock.world.disk import RealDisk
from penstock.world.errors import DiskError
from penstock.world.ports import File


class WatchedDisk(RealDisk):
    """`hold()` keeps syncs waiting until `let_go()`; `failing` paths fail theirs. `full`: there is
    no room for small files.
    """

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0  # calls, each of any number of files
        self.failing: list[str] = []  # what a path begins with
        self.full = False
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def write_whole(self, path: str, data: bytes) -> None:
        if self.full:
            raise DiskError(path, "No space left on device", full=True)
        super().write_whole(path, data)

    async def sync(self, files: Sequence[File]) -> None:
        self.syncs += 1
        await self._open.wait()
        for file in files:
            if file.path.startswith(tuple(self.failing)):
                raise DiskError(file.path, "Input/output error")
        await super().sync(files)
