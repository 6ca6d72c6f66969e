"""A file system with two memories: what the page cache shows, and what a power loss leaves.

    file        data      as the page cache has it        durable   as of the last sync
    folder      entries   names as a process sees them    durable   names as of the last sync

A killed process loses nothing of the left column. A power loss begins from the right one; of what
was not synced it keeps what chance has it: each sector (512 bytes) of a file for itself, any
length between the old one and the new one, which cuts a write at any byte, and each change of a
name for itself. A rename is one change: it is kept or lost as a whole.

Invariants:
 1. Outside `dirty` sectors, `data` and `durable` agree.
 2. `unsynced` holds the changes of names that `durable` does not show, oldest first.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from penstock.world.errors import DiskError

SECTOR_BYTES = 512
KEEP_CHANCES = (0.0, 0.3, 0.7, 0.95, 1.0)  # of what is unsynced; one is drawn for each power loss


@dataclass(slots=True, eq=False)
class Content:
    """One file, whatever its name."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)  # numbers of sectors
    syncs_begun: int = 0
    synced: int = 0  # the latest begun of those that have ended
    under_way: dict[int, dict[int, bytes]] = field(default_factory=dict)  # syncs, by number
    modified_us: int = 0  # when it was last written to, in virtual time

    def touch(self, start: int, end: int) -> None:
        if end > start:
            self.dirty.update(range(start // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1))

    def begin_sync(self) -> "BegunSync":
        """What a sync that begins now will have stored when it ends."""
        self.syncs_begun += 1
        # Also what other syncs will have stored until this one ends.
        sectors = self.dirty.union(*self.under_way.values())
        begun = BegunSync(
            number=self.syncs_begun,
            size=len(self.data),
            sectors={sector: bytes(self.data[_span(sector)]) for sector in sectors},
        )
        self.under_way[begun.number] = begun.sectors
        return begun

    def give_up_sync(self, begun: "BegunSync") -> None:
        self.under_way.pop(begun.number, None)

    def end_sync(self, begun: "BegunSync") -> None:
        self.give_up_sync(begun)
        if begun.number < self.synced:
            return  # one that began later has ended before
        self.synced = begun.number
        durable = self.durable
        if len(durable) < begun.size:
            durable.extend(bytes(begun.size - len(durable)))
        for sector, data in begun.sectors.items():
            durable[sector * SECTOR_BYTES : sector * SECTOR_BYTES + len(data)] = data
        del durable[begun.size :]
        touched = self.dirty.union(begun.sectors)
        self.dirty = {sector for sector in touched if not self.agrees(sector)}

    def flip(self, position: int, bit: int) -> None:
        """A bit changes at rest, in both memories."""
        self.data[position] ^= 1 << bit
        if position < len(self.durable):
            self.durable[position] ^= 1 << bit

    def agrees(self, sector: int) -> bool:
        span = _span(sector)
        return self.data[span] == self.durable[span]


@dataclass(slots=True, kw_only=True)
class BegunSync:
    """A file as it was when a sync of it began, where that differs from what is durable."""

    number: int
    size: int
    sectors: dict[int, bytes]


@dataclass(slots=True, eq=False)
class Folder:
    entries: dict[str, "Entry"] = field(default_factory=dict)
    durable: dict[str, "Entry"] = field(default_factory=dict)


Entry = Content | Folder


@dataclass(slots=True, eq=False)
class Edit:
    """A name in a folder comes to mean something else, or nothing."""

    folder: Folder
    name: str
    entry: Entry | None

    def apply(self, names: dict[str, Entry]) -> None:
        if self.entry is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.entry


class FileSystem:
    """The storage of one machine; processes come and go."""

    def __init__(self, chance: Random) -> None:
        self.root = Folder()
        self._folders: dict[str, Folder] = {}  # found before, by path, until folders change
        self.unsynced: dict[int, tuple[Edit, ...]] = {}  # by number, oldest first
        self._changes = 0
        self._unsynced_in: dict[Folder, list[int]] = {}  # the numbers of those that concern it
        self.locks: set[str] = set()
        self.room: int | None = None  # bytes until it is full; None: no end of it
        self.squeeze = 0.0  # chance that others have just taken all room, to give it back at once
        self.sync_us = (500, 2000)  # how long a sync takes, at least and at most
        self.syncs_fail = False
        self.has_failed = False  # whether it was full or failing at any time
        self.chance = chance
        self.about_to_rename: Callable[[str, str], None] | None = None  # somebody looks on

    def find(self, path: str) -> Entry | None:
        above, _, name = path.rpartition("/")
        folder = self._folders.get(above)
        if folder is None:
            found = self._walk(above)
            if not isinstance(found, Folder):
                return None
            folder = self._folders[above] = found
        return folder.entries.get(name) if name else folder

    def folder_of(self, path: str) -> tuple[Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self.find(above)
        if not isinstance(folder, Folder):
            raise DiskError(path, "No such file or directory")
        return folder, name

    def change(self, *edits: Edit) -> None:
        """Changes names, as one step that a power loss keeps or loses."""
        for edit in edits:
            before = edit.folder.entries.get(edit.name)
            if isinstance(before, Folder) or isinstance(edit.entry, Folder):
                self._folders.clear()
            edit.apply(edit.folder.entries)
        self._changes += 1
        self.unsynced[self._changes] = edits
        for folder in {edit.folder for edit in edits}:
            self._unsynced_in.setdefault(folder, []).append(self._changes)

    def sync_folder(self, folder: Folder) -> None:
        for number in self._unsynced_in.pop(folder, ()):
            # A rename from one folder to another is synced with either of them.
            for edit in self.unsynced.pop(number, ()):
                edit.apply(edit.folder.durable)

    def take_room(self, path: str, byte_count: int) -> None:
        squeezed = self.squeeze > 0 and self.chance.random() < self.squeeze
        if byte_count > 0 and (squeezed or (self.room is not None and byte_count > self.room)):
            raise DiskError(path, "No space left on device", full=True)
        if self.room is not None:
            self.room -= byte_count

    def give_room(self, byte_count: int) -> None:
        if self.room is not None:
            self.room += byte_count

    def process_killed(self) -> None:
        """The page cache stays; locks go with who held them."""
        self.locks.clear()

    def power_lost(self) -> None:
        """What a start after a power loss finds."""
        self.locks.clear()
        keep = self.chance.choice(KEEP_CHANCES)
        for edits in self.unsynced.values():
            if self.chance.random() < keep:
                for edit in edits:
                    edit.apply(edit.folder.durable)
        self._forget_unsynced()
        self._folders.clear()
        self._restore(self.root, keep)

    def erase(self) -> None:
        """An empty disk in the place of this one."""
        assert not self.locks, self.locks
        self.root = Folder()
        self._folders.clear()
        self._forget_unsynced()
        self.room = None

    def wipe(self, path: str) -> None:
        """Nothing is left in a folder, for good. No process has a file open."""
        assert not self.locks, self.locks
        folder = self.find(path)
        assert isinstance(folder, Folder), path
        folder.entries.clear()
        folder.durable.clear()
        self._folders.clear()
        for number in self._unsynced_in.pop(folder, ()):
            self.unsynced.pop(number, None)

    def check(self, entry: Entry | None = None) -> None:
        entry = entry or self.root
        if isinstance(entry, Folder):
            for below in entry.entries.values():
                self.check(below)
            return
        length = max(len(entry.data), len(entry.durable))
        for sector in range(length // SECTOR_BYTES + 1):
            assert sector in entry.dirty or entry.agrees(sector), "invariant 1"

    def _forget_unsynced(self) -> None:
        self.unsynced.clear()
        self._unsynced_in.clear()

    def _walk(self, path: str) -> Entry | None:
        entry: Entry = self.root
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(entry, Folder):
                return None
            below = entry.entries.get(name)
            if below is None:
                return None
            entry = below
        return entry

    def _restore(self, folder: Folder, keep: float) -> None:
        # In the order of names: two runs must draw the same numbers for the same files.
        folder.entries = {name: folder.durable[name] for name in sorted(folder.durable)}
        folder.durable = dict(folder.entries)
        for entry in folder.entries.values():
            if isinstance(entry, Folder):
                self._restore(entry, keep)
            else:
                left = self._survivors(entry, keep)
                entry.data, entry.durable = bytearray(left), bytearray(left)
                entry.dirty.clear()
                entry.under_way.clear()

    def _survivors(self, content: Content, keep: float) -> bytearray:
        data, durable = content.data, content.durable
        if not content.dirty:
            return durable
        shorter, longer = sorted((len(data), len(durable)))
        size = self.chance.choice((len(data), len(durable), self.chance.randint(shorter, longer)))
        left = durable[:size] + bytes(max(0, size - len(durable)))
        for sector in sorted(content.dirty):
            start = sector * SECTOR_BYTES
            end = min(start + SECTOR_BYTES, size, len(data))
            if end > start and self.chance.random() < keep:
                left[start:end] = data[start:end]
        return left


def _span(sector: int) -> slice:
    return slice(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)
