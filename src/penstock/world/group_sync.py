"""fsync off the loop, shared by all who wait for it: group commit.

At most one sync of a file runs at a time, and one more waits behind it; whoever asks meanwhile
shares the one that waits, because a sync already under way may have passed over the bytes just
written. A failed sync is final: the kernel has dropped the dirty pages, so a second attempt would
succeed without having written them.

One call may be given more files than the process may open: it takes them in portions, and each file
is open for its own portion alone.
"""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from penstock.world.errors import DiskError

SYNC_THREADS_MAX = 4


class Syncable(Protocol):
    """What GroupSync asks of a file."""

    @property
    def is_closed(self) -> bool: ...

    def pin(self) -> int: ...

    def unpin(self) -> None: ...

    def spoil(self, error: OSError) -> DiskError: ...


class GroupSync:
    def __init__(self, *, open_files_max: int) -> None:
        assert open_files_max > 0
        self._open_files_max = open_files_max  # for each call
        self._running: dict[Syncable, asyncio.Future[None]] = {}
        self._waiting: dict[Syncable, asyncio.Future[None]] = {}
        self.threads = ThreadPoolExecutor(SYNC_THREADS_MAX, thread_name_prefix="penstock-sync")

    async def sync(self, files: Sequence[Syncable]) -> None:
        """Returns when everything written to the files before the call is on disk. DiskError: one
        was not, which is final; or, once all others were, one could not be opened. A file that is
        closed before its turn is left out: its owner has removed it.
        """
        short_of_room: DiskError | None = None
        for first in range(0, len(files), self._open_files_max):
            portion = files[first : first + self._open_files_max]
            for sync in [self._join(file) for file in portion if not file.is_closed]:
                try:
                    # Shielded: others wait for the same sync, and a cancelled waiter must not take
                    # it from them.
                    await asyncio.shield(sync)
                except DiskError as error:
                    if not error.full:
                        raise
                    short_of_room = error
        if short_of_room is not None:
            raise short_of_room

    def close(self) -> None:
        """Lets the threads end; nobody may ask for a sync any more."""
        self.threads.shutdown(wait=False)

    def _join(self, file: Syncable) -> asyncio.Future[None]:
        waiting = self._waiting.get(file)
        if waiting is not None:
            return waiting
        sync = asyncio.get_running_loop().create_future()
        if file in self._running:
            self._waiting[file] = sync
        else:
            self._begin(file, sync)
        return sync

    def _begin(self, file: Syncable, sync: asyncio.Future[None]) -> None:
        try:
            fd = file.pin()
        except DiskError as error:
            fail(sync, error)
            return
        self._running[file] = sync
        work = asyncio.get_running_loop().run_in_executor(self.threads, os.fsync, fd)
        work.add_done_callback(partial(self._finish, file, sync))

    def _finish(
        self, file: Syncable, sync: asyncio.Future[None], work: asyncio.Future[None]
    ) -> None:
        file.unpin()
        del self._running[file]
        error = work.exception()
        if error is None:
            sync.set_result(None)
        else:
            assert isinstance(error, OSError), error
            fail(sync, file.spoil(error))
        waiting = self._waiting.pop(file, None)
        if waiting is not None:
            self._begin(file, waiting)


def fail(sync: asyncio.Future[None], error: DiskError) -> None:
    sync.set_exception(error)
    sync.exception()  # seen, should every waiter have been cancelled
