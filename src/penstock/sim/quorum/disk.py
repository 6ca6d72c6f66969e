"""The disk of one replica: what a crash leaves of its log, its hard state and its snapshots.

The log's changes since the last sync are kept in order; a crash keeps some of them, from the
oldest on, and perhaps a part of the next one. Hard state and snapshots are durable when they are
written, as the driver writes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.effects import HardState
from penstock.raft.log_ends import LogEnds
from penstock.raft.voter_history import VotersAt
from penstock.raft.voters import VoterSet

LEADER_CHANGE = -1  # the value of the record that begins an epoch
VOTERS_MAX = -2  # this value and those below name voter sets: `VoterBook`


class LogEntry(NamedTuple):
    epoch: LeaderEpoch
    value: int


class VoterBook:
    """The voter sets of a run, by the values of the records that name them."""

    def __init__(self) -> None:
        self._sets: list[VoterSet] = []

    def value_of(self, voters: VoterSet) -> int:
        """The value of a new record."""
        self._sets.append(voters)
        return VOTERS_MAX + 1 - len(self._sets)

    def voters(self, value: int) -> VoterSet:
        return self._sets[VOTERS_MAX - value]

    def named_in(self, entries: Sequence[LogEntry], *, start: Offset) -> list[VotersAt]:
        """The sets that entries name, of which the first one stands at `start`."""
        return [
            VotersAt(offset=Offset(start + slot), voters=self.voters(entry.value))
            for slot, entry in enumerate(entries)
            if entry.value <= VOTERS_MAX
        ]


class Change(NamedTuple):
    """Cut off at `offset`, then append."""

    offset: Offset
    entries: tuple[LogEntry, ...]


class SnapshotContent(NamedTuple):
    """All entries below the snapshot's offset: what a state machine would know of them."""

    entries: tuple[LogEntry, ...]


class ReplicaDisk:
    """`entries[n]` is the record at offset `start_offset + n`."""

    def __init__(self, directory_id: bytes) -> None:
        self.directory_id = directory_id
        self.hard = HardState(epoch=LeaderEpoch(0), leader_id=None, voted=None)
        self.start_offset = Offset(0)
        self.entries: list[LogEntry] = []
        self.snapshot: SnapshotId | None = None
        self.snapshot_content: tuple[LogEntry, ...] = ()
        self._durable: list[LogEntry] = []
        self._unsynced: list[Change] = []

    @property
    def end_offset(self) -> Offset:
        return Offset(self.start_offset + len(self.entries))

    @property
    def changes(self) -> int:
        """How many changes are not durable yet: `sync` takes it."""
        return len(self._unsynced)

    def entry(self, offset: Offset) -> LogEntry:
        return self.entries[offset - self.start_offset]

    def everything(self) -> list[LogEntry]:
        """Every entry below the end, those of the snapshot included."""
        return [*self.snapshot_content[: self.start_offset], *self.entries]

    @property
    def durable(self) -> list[LogEntry]:
        """What of `entries` a crash leaves, or brings back."""
        return list(self._durable)

    @property
    def durable_end(self) -> Offset:
        return Offset(self.start_offset + len(self._durable))

    def has_durable(self, offset: Offset, entry: LogEntry) -> bool:
        """Whether a crash would leave this entry, in the log or in the snapshot."""
        if offset < self.start_offset:
            return self.snapshot_content[offset] == entry
        at = offset - self.start_offset
        return at < len(self._durable) and self._durable[at] == entry

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        self._unsynced.append(Change(self.end_offset, entries))
        self.entries.extend(entries)

    def truncate(self, offset: Offset) -> None:
        self._unsynced.append(Change(offset, ()))
        del self.entries[offset - self.start_offset :]

    def sync(self, changes: int) -> None:
        """The first `changes` changes are durable."""
        for change in self._unsynced[:changes]:
            self._apply(change)
        del self._unsynced[:changes]

    def make_snapshot(self, offset: Offset) -> SnapshotId:
        """Of everything below `offset`; the log is trimmed to it."""
        everything = self.everything()
        snapshot = SnapshotId(offset, everything[offset - 1].epoch)
        self.snapshot, self.snapshot_content = snapshot, tuple(everything[:offset])
        cut = offset - self.start_offset
        del self.entries[:cut]
        del self._durable[:cut]
        self.start_offset = offset
        return snapshot

    def install(self, snapshot: SnapshotId, content: tuple[LogEntry, ...]) -> None:
        self.snapshot, self.snapshot_content = snapshot, content
        self.start_offset = snapshot.offset
        self.entries, self._durable, self._unsynced = [], [], []

    def crash(self, *, kept: int, torn: int) -> None:
        """Keeps `kept` of the unsynced changes and the first `torn` records of the next one."""
        self.sync(kept)
        torn_entries = self._unsynced[0].entries[:torn] if self._unsynced else ()
        if torn_entries:
            self._apply(Change(self._unsynced[0].offset, torn_entries))
        self._unsynced.clear()
        self.entries = list(self._durable)

    def log_ends(self) -> LogEnds:
        """What a replica that starts reads from the disk."""
        ends = LogEnds()
        if self.snapshot is not None:
            ends.install(self.snapshot)
        for slot, entry in enumerate(self.entries):
            ends.append(entry.epoch, Offset(self.start_offset + slot + 1))
        if not self._unsynced:
            ends.begin_sync()
            ends.end_sync()
        return ends

    def _apply(self, change: Change) -> None:
        """A change that began below the log's start was trimmed since, as far as it lies there."""
        at = change.offset - self.start_offset
        entries = change.entries
        if at < 0:
            entries, at = entries[-at:], 0
        del self._durable[at:]
        self._durable.extend(entries)
