"""The `.snapshot` files of one log: its producers as of the start of each segment, and of its end.

They are written when a segment begins and at a clean stop, and not replaced unless they may be
torn. A torn file fails its checksum, so writing needs no temporary file and no fsync of its own.
"""

from bisect import bisect_right, insort
from collections.abc import Collection

from penstock.log import layout
from penstock.log.errors import CorruptSnapshot
from penstock.log.producer_snapshot import decode_snapshot, encode_snapshot
from penstock.log.producer_state import ProducerState, ProducerStates
from penstock.model.identity import ProducerId
from penstock.model.offset import Offset
from penstock.world.ports import Disk


class Snapshots:
    __slots__ = ("_directory", "_disk", "_offsets", "_sound")

    def __init__(self, disk: Disk, directory: str, offsets: list[Offset]) -> None:
        self._disk = disk
        self._directory = directory
        self._offsets = sorted(offsets)
        self._sound: set[Offset] = set()  # written or read by this process

    def is_sound(self, offset: Offset) -> bool:
        """Whether there is one at `offset` which is not torn, as far as this process knows."""
        return offset in self._sound

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return tuple(self._offsets)

    def path(self, offset: Offset) -> str:
        return layout.segment_path(self._directory, offset, layout.SNAPSHOT)

    def newest(self, until_offset: Offset) -> tuple[Offset, dict[ProducerId, ProducerState]] | None:
        """The newest readable snapshot at or below `until_offset`; unreadable ones are removed."""
        slot = bisect_right(self._offsets, until_offset) - 1
        while slot >= 0:
            offset = self._offsets[slot]
            try:
                found = decode_snapshot(self._disk.read(self.path(offset)))
            except CorruptSnapshot:
                self._remove([offset])
            else:
                self._sound.add(offset)
                return offset, found
            slot -= 1
        return None

    def write(self, producers: ProducerStates) -> str | None:
        """Writes a snapshot at the producers' offset; returns its path, or None if it existed
        already. One that a power loss may have torn does not count.
        """
        offset = producers.end_offset
        if offset in self._sound:
            return None
        path = self.path(offset)
        file = self._disk.open(path, create=True)
        file.truncate(0)
        file.append([encode_snapshot(producers.by_id)])
        file.close()
        self._sound.add(offset)
        if offset not in self._offsets:
            insort(self._offsets, offset)
        return path

    def doubt(self, offset: Offset) -> None:
        """One at `offset`, if there is one, is not what the producers are: `write` replaces it."""
        self._sound.discard(offset)

    def remove_above(self, offset: Offset) -> list[str]:
        """Removes those above `offset`; returns, like the methods below, the removed paths."""
        return self._remove([one for one in self._offsets if one > offset])

    def remove_below(self, offset: Offset) -> list[str]:
        """Removes those below `offset`, where the first segment begins: what came between the two
        is not known.
        """
        return self._remove([one for one in self._offsets if one < offset])

    def remove_all(self, *, but: Collection[Offset] = ()) -> list[str]:
        return self._remove([one for one in self._offsets if one not in but])

    def remove_strays(self, base_offsets: set[Offset]) -> list[str]:
        """Removes all but those at the start of a segment, and the newest."""
        return self._remove([one for one in self._offsets[:-1] if one not in base_offsets])

    def _remove(self, offsets: list[Offset]) -> list[str]:
        for offset in offsets:
            self._disk.remove(self.path(offset))
            self._offsets.remove(offset)
            self._sound.discard(offset)
        return [self.path(offset) for offset in offsets]
