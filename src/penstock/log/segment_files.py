"""The files of one segment: their names, creation and removal.

    <base offset>.log  .index  .timeindex  .txnindex     and an ending while compaction is at work

The .log file owns the others: it is created last and removed first, so a crash in between leaves
orphans, which the next start removes, and never an incomplete segment.
"""

from penstock.log import layout
from penstock.log.errors import CorruptIndex
from penstock.log.loaded_indexes import Indexes
from penstock.log.offset_index import OffsetIndex
from penstock.log.time_index import TimeIndex
from penstock.model.offset import Offset
from penstock.world.errors import DiskError
from penstock.world.ports import Disk, File


class SegmentFiles:
    __slots__ = ("_base_offset", "_directory", "_disk", "_ending", "_log")

    def __init__(self, *, disk: Disk, directory: str, base_offset: Offset, ending: str) -> None:
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._ending = ending
        self._log: File | None = None

    # Queries

    @property
    def log(self) -> File:
        """The .log file; the disk closes and reopens its descriptor as it sees fit."""
        if self._log is None:
            self._log = self._disk.open(self.path(layout.LOG))
        return self._log

    @property
    def log_modified_ms(self) -> int:
        return self._disk.modified_ms(self.path(layout.LOG))

    @property
    def all_paths(self) -> tuple[str, ...]:
        """Every file that the segment may have."""
        return tuple(self.path(suffix) for suffix in layout.SEGMENT_SUFFIXES)

    def path(self, suffix: str) -> str:
        return layout.segment_path(self._directory, self._base_offset, suffix) + self._ending

    def exists(self, suffix: str) -> bool:
        return self._disk.exists(self.path(suffix))

    def read(self, suffix: str) -> bytes:
        """The content of the file; empty when it does not exist."""
        return self._disk.read(self.path(suffix)) if self.exists(suffix) else b""

    def read_indexes(self, *, log_bytes: int) -> Indexes:
        """The saved indexes of a log of this size; CorruptIndex when they are missing or invalid.

        A sealed segment has both.
        """
        for suffix in (layout.OFFSET_INDEX, layout.TIME_INDEX):
            if not self.exists(suffix):
                raise CorruptIndex(f"{self.path(suffix)} is missing")
        return Indexes(
            offset=OffsetIndex.decode(
                self._base_offset, self.read(layout.OFFSET_INDEX), log_bytes=log_bytes
            ),
            time=TimeIndex.decode(self._base_offset, self.read(layout.TIME_INDEX)),
        )

    # Commands

    def create(self) -> None:
        """Creates the files of a new segment, empty; older files of these names are removed."""
        for suffix in (layout.OFFSET_INDEX, layout.TIME_INDEX, layout.LOG):
            self.overwrite(suffix, b"")
        self._disk.remove(self.path(layout.ABORTED_INDEX))

    def overwrite(self, suffix: str, data: bytes) -> None:
        file = self._disk.open(self.path(suffix), create=True)
        if file.size:
            file.truncate(0)
        if data:
            file.append([data])
        if suffix == layout.LOG:
            self._log = file
        else:
            file.close()

    def remove(self) -> None:
        self.let_go()
        for path in self.all_paths:
            self._disk.remove(path)

    def remove_indexes(self) -> tuple[str, ...]:
        """Removes only the saved indexes; returns their paths."""
        paths = self.path(layout.OFFSET_INDEX), self.path(layout.TIME_INDEX)
        for path in paths:
            self._disk.remove(path)
        return paths

    def retire(self) -> list[str]:
        """Renames the files so that no start loads them; returns their new paths. Readers can
        continue.

        DiskError: they are unchanged. Once the .log file is renamed the segment is deleted; a file
        that keeps its old name is an orphan.
        """
        self.hold()
        paths: list[str] = []
        for suffix in layout.SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if not self._disk.exists(path):
                continue
            try:
                self._disk.rename(path, path + layout.DELETED)
            except DiskError:
                if suffix == layout.LOG:
                    raise
                continue
            paths.append(path + layout.DELETED)
        self.let_go()
        return paths

    def change_ending(self, ending: str) -> None:
        """Renames the files, the .log file last."""
        self.hold()
        for suffix in reversed(layout.SEGMENT_SUFFIXES):
            path = self.path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path.removesuffix(self._ending) + ending)
        self._ending = ending
        self.let_go()

    def sync_names(self) -> None:
        self._disk.sync_directory(self._directory)

    def hold(self) -> None:
        """Call it before the .log file is renamed: readers can continue."""
        if self._log is not None:
            self._log.hold()

    def let_go(self) -> None:
        """Releases the file. It is not closed: a reader may still be sending from it."""
        self._log = None
