"""Replaces segments by the compacted one made from them, safely at a crash at any point.

    files on disk                                                       a start takes
    <b0>.log <b1>.log ..  <b0>.log.cleaned                               the old ones
 1  <b0>.log <b1>.log ..  <b0>.log.swap          renamed, then synced    the new one
 2  <b0>.log.deleted ..   <b0>.log.swap          renamed, then synced    the new one
 3  <b0>.log                                     renamed                 the new one

The name of the .log file decides: its indexes are renamed before it and removed after it, and an
index without a log is rebuilt. Between the steps the directory is synced, which must not block the
loop: `cleaner` does it between its items, and also removes retired files.

Invariants:
 1. Old files are removed only when the swap file is durable; the swap file gets its final name only
    when the removal of the old ones is durable: there are never two segments with the same offsets.
 2. Sources are sealed, consecutive segments of the log, unchanged since they were read. If a
    truncation or a deletion came in between, the swap is dropped.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.log import layout
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.segment import Segment
from penstock.log.snapshots import Snapshots
from penstock.log.unsynced import Unsynced
from penstock.model.offset import Offset
from penstock.world.ports import Disk


class Source(Protocol):
    """A segment as it was when it was read."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def size_bytes(self) -> int: ...


class Swaps:
    """The one swap of a log that is under way, if any; see the module's invariants."""

    __slots__ = (
        "_cleaned",
        "_directory",
        "_disk",
        "_loaded",
        "_segments",
        "_snapshots",
        "_sources",
        "_unsynced",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        segments: list[Segment],
        loaded: LoadedIndexes,
        snapshots: Snapshots,
        unsynced: Unsynced,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments  # the log's own list
        self._loaded = loaded
        self._snapshots = snapshots
        self._unsynced = unsynced
        self._sources: list[Segment] = []
        self._cleaned: Segment | None = None

    def begin(self, sources: Sequence[Source], *, size_bytes: int) -> bool:
        """Begins a swap with what a pass has written for `sources`; False when they have changed
        since: that is removed.

        Step 1 above; the directory must be synced before `replace`.
        """
        self.drop()
        cleaned = Segment(
            disk=self._disk,
            directory=self._directory,
            base_offset=sources[0].base_offset,
            size_bytes=size_bytes,
            created_ms=0,
            loaded=self._loaded,
            ending=layout.CLEANED,
        )
        slot = self._slot_of(sources)
        if slot is None:
            cleaned.remove_files()
            return False
        self._sources = self._segments[slot : slot + len(sources)]
        cleaned.created_ms = self._sources[-1].created_ms
        self._cleaned = cleaned
        cleaned.change_ending(layout.SWAP)
        return True

    def replace(self) -> bool:
        """Readers use the new segment from here on; False when the sources have changed.

        Step 2; the directory must be synced before `finish`. DiskError: the log uses the new
        segment nevertheless, and the next start finishes the swap.
        """
        cleaned = self._cleaned
        if cleaned is None or self._slot_of(self._sources) is None:
            self.drop()
            return False
        slot = self._segments.index(self._sources[0])
        sources, self._sources = self._sources, []
        self._segments[slot : slot + len(sources)] = [cleaned]
        bases = {segment.base_offset for segment in self._segments}
        self._unsynced.forget(*self._snapshots.remove_strays(bases))
        for source in sources:
            self._unsynced.forget(*source.paths)
            source.retire_files()
        return True

    def finish(self) -> None:
        """Gives the new files their names: step 3. A power loss after it may undo the renaming."""
        cleaned, self._cleaned = self._cleaned, None
        if cleaned is not None and cleaned in self._segments:
            cleaned.change_ending("")
            self._unsynced.directory = True

    def drop(self) -> None:
        """Drops a swap that has not replaced anything yet."""
        if self._cleaned is None or not self._sources:
            return
        cleaned, self._cleaned, self._sources = self._cleaned, None, []
        cleaned.remove_files()

    def _slot_of(self, sources: Sequence[Source]) -> int | None:
        """Where the sources stand in the log; None unless they stand there as they were."""
        bases = [segment.base_offset for segment in self._segments]
        if sources[0].base_offset not in bases:
            return None
        slot = bases.index(sources[0].base_offset)
        found = self._segments[slot : slot + len(sources)]
        same = [(one.base_offset, one.size_bytes) for one in found] == [
            (one.base_offset, one.size_bytes) for one in sources
        ]
        return slot if same and not any(one.is_active for one in found) else None
