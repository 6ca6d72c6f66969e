"""Which part of a log is durable, and what to sync to make more of it durable.

Below the recovery point all bytes are synced; after a crash the next start scans what is above it.
Recovery point, start offset and high watermark are stored in the checkpoints of the directory.

Invariants:
 1. The recovery point on disk never exceeds what is synced: it is raised after the sync, and
    lowered before anything below it is rewritten.
 2. The name of a segment is durable before that of the next one can be, or a log could come back
    without its beginning.
 3. A high watermark on disk is lowered before records below it are removed.
 4. Saved indexes of the active segment are those of a stop, and end at the recovery point: they go
    before the recovery point moves. Else a segment that a power loss has cut back to where the stop
    was would look like a sealed one, and the gap behind it like one that compaction has left.
"""

from typing import Protocol

from penstock.log.segment import Segment
from penstock.log.unsynced import Unsynced
from penstock.model.offset import Offset
from penstock.world.errors import DiskError
from penstock.world.ports import Disk, File


class Checkpoints(Protocol):
    """Writes the offsets of the open logs to disk; durable when the call returns."""

    def save_recovery_points(self) -> None: ...

    def save_start_offsets(self) -> None: ...

    def save_watermarks(self) -> None: ...

    def save_cleaned_offsets(self) -> None: ...


class Durability:
    """See the module's invariants. Without checkpoints nothing is stored."""

    __slots__ = (
        "_checkpoints",
        "_directory",
        "_disk",
        "_watermark_max",
        "recovery_point",
        "unsynced",
        "watermark",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        recovery_point: Offset,
        watermark: Offset | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.recovery_point = recovery_point
        self.watermark = watermark  # as it was last noted; None: never
        self._watermark_max = watermark  # at or above the one on disk
        self.unsynced = Unsynced(disk, directory)
        self._disk = disk
        self._directory = directory
        self._checkpoints = checkpoints

    def note_watermark(self, offset: Offset) -> None:
        """The next save of the checkpoints stores it."""
        self.watermark = offset
        if self._watermark_max is None or offset > self._watermark_max:
            self._watermark_max = offset

    # What has been written

    def segment_saved(self, segment: Segment, *, end_offset: Offset) -> None:
        """The segment and its indexes are final, in a log that ends at `end_offset`."""
        for path in segment.paths:
            if self._disk.exists(path):
                self.unsynced.add(path, end_offset)

    def segment_gone(self, segment: Segment) -> None:
        self.unsynced.forget(*segment.paths)
        self.unsynced.directory = True

    def file_written(self, path: str | None, *, end_offset: Offset) -> None:
        """A small file beside the segments, if there is one."""
        if path is not None:
            self.unsynced.add(path, end_offset)
            self.unsynced.directory = True

    # Syncs

    def make_names_last(self) -> None:
        """Syncs the names that have changed since the last sync (invariant 2)."""
        if self.unsynced.directory:
            self.sync_names()

    def sync_names(self) -> None:
        self._disk.sync_directory(self._directory)
        self.unsynced.directory = False

    def sync_file(self, path: str) -> None:
        """A small file beside the segments, at once, with its name."""
        self._disk.sync_all([path])
        self.sync_names()

    def begin_sync(self, active: Segment, *, end_offset: Offset) -> list[File]:
        """What to sync to make everything up to `end_offset`, the end of the log, durable."""
        if end_offset > self.recovery_point:
            self._forget_stop(active)
        files = self.unsynced.begin(end_offset)
        if end_offset > self.recovery_point:
            files.append(active.file)
        return files

    def lower(self, offset: Offset, active: Segment) -> None:
        """Call it before anything above `offset` is rewritten; after DiskError it must not be."""
        self.unsynced.lower(offset)
        before = self.recovery_point
        if offset < before:
            if self._forget_stop(active):
                self.sync_names()
            self.recovery_point = offset
            try:
                if self._checkpoints is not None:
                    self._checkpoints.save_recovery_points()
            except DiskError:
                self.recovery_point = before
                raise

    def lower_watermark(self, offset: Offset) -> None:
        """The same for the high watermark: invariant 3. It is seldom above what is removed."""
        before = self.watermark
        if before is None or self._watermark_max is None or offset >= self._watermark_max:
            return
        self.watermark = min(before, offset)
        try:
            if self._checkpoints is not None:
                self._checkpoints.save_watermarks()
        except DiskError:
            self.watermark = before
            raise
        self._watermark_max = offset

    def _forget_stop(self, active: Segment) -> bool:
        """Invariant 4; the names are to be synced. Whether there may have been indexes."""
        if not active.has_saved_indexes:
            return False
        self.unsynced.forget(*active.remove_saved_indexes())
        self.unsynced.directory = True
        return True

    def save_cleaned_offset(self) -> None:
        """Recovery takes gaps below it for those that compaction has left."""
        if self._checkpoints is not None:
            self._checkpoints.save_cleaned_offsets()

    def save_start_offset(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.save_start_offsets()
