"""What of a log has reached the page cache and not yet the platter, besides its active segment.

Sealed segments with their indexes, snapshots, and the directory that names them. Each file is
noted with the end offset of the log at that time; a sync that began at a later end has covered it.
"""

from penstock.model.offset import Offset
from penstock.world.ports import Disk, File


class Unsynced:
    __slots__ = ("_directory_path", "_disk", "_limit", "_noted", "directory")

    def __init__(self, disk: Disk, directory: str) -> None:
        self.directory = False  # whether names in the directory have changed
        self._disk = disk
        self._directory_path = directory
        self._noted: dict[str, tuple[File, Offset]] = {}
        self._limit: Offset | None = None  # how far the sync under way can reach

    def files(self) -> list[File]:
        return [file for file, _ in self._noted.values()]

    def add(self, path: str, end_offset: Offset) -> None:
        self.forget(path)
        self._noted[path] = self._disk.open(path), end_offset

    def forget(self, path: str) -> None:
        """The file is gone, or its name is used again. A sync of it may be under way: no close."""
        self._noted.pop(path, None)

    def begin(self, end_offset: Offset) -> None:
        self._limit = end_offset

    def lower(self, offset: Offset) -> None:
        """What lies above `offset` is written anew: the sync under way does not cover it."""
        if self._limit is not None:
            self._limit = min(self._limit, offset)

    def finish(self, offset: Offset) -> Offset:
        """A sync that began when the log ended at `offset` is done; how far all is synced now."""
        if self.directory:
            self._disk.sync_directory(self._directory_path)
            self.directory = False
        if self._limit is not None:
            offset = min(offset, self._limit)
        for path, (file, end_offset) in list(self._noted.items()):
            # A file noted at that very offset may have come after the sync began.
            if end_offset < offset:
                del self._noted[path]
                file.close()
        return offset

    def forget_all(self) -> None:
        for file, _ in self._noted.values():
            file.close()
        self._noted.clear()
