"""The files of a log that are in the page cache but not yet on disk, besides its active segment.

Sealed segments with their indexes, snapshots, and the directory. Each file is noted with the end
offset of the log at that time; a sync that began at a later end offset has covered it.
"""

from penstock.model.offset import Offset
from penstock.world.ports import Disk, File


class Unsynced:
    __slots__ = ("_directory_path", "_disk", "_limit", "_noted", "_syncing", "directory")

    def __init__(self, disk: Disk, directory: str) -> None:
        self.directory = False  # whether names in the directory have changed
        self._disk = disk
        self._directory_path = directory
        self._noted: dict[str, Offset] = {}  # by path, so that none is held open until a sync
        self._syncing: dict[str, File] = {}  # by path
        self._limit: Offset | None = None  # how far the sync under way can reach

    def __len__(self) -> int:
        return len(self._noted)

    def add(self, path: str, end_offset: Offset) -> None:
        self._noted[path] = end_offset

    def forget(self, *paths: str) -> None:
        """Drops files that were removed; the sync under way leaves them out, where it can."""
        for path in paths:
            self._noted.pop(path, None)
            file = self._syncing.pop(path, None)
            if file is not None:
                file.close()

    @property
    def paths(self) -> list[str]:
        """Everything noted, and the directory if its names have changed."""
        return [*self._noted, *([self._directory_path] if self.directory else [])]

    def clear(self) -> None:
        """All that was noted is synced."""
        self._noted.clear()
        self.directory = False

    def begin(self, end_offset: Offset) -> list[File]:
        """The files to sync, now that the log ends at `end_offset`; open until `finish`."""
        self._limit = end_offset
        for path in self._noted:
            self._syncing[path] = self._disk.open(path)
        return list(self._syncing.values())

    def lower(self, offset: Offset) -> None:
        """What is above `offset` is rewritten: the sync under way does not cover it."""
        if self._limit is not None:
            self._limit = min(self._limit, offset)

    def finish(self, offset: Offset) -> Offset:
        """A sync that began when the log ended at `offset` is done; returns up to where everything
        is synced.
        """
        self.let_go()
        if self.directory:
            self._disk.sync_directory(self._directory_path)
            self.directory = False
        if self._limit is not None:
            offset = min(offset, self._limit)
        # A file noted at that very offset may have come after the sync began.
        self._noted = {path: end for path, end in self._noted.items() if end >= offset}
        return offset

    def let_go(self) -> None:
        for file in self._syncing.values():
            file.close()
        self._syncing.clear()
