"""Where each leader epoch began: replicas compare this to find where their logs diverge.

    leader-epoch-checkpoint, text:
        0                   version
        2                   number of entries
        3 0                 leader epoch, first offset
        5 120

Invariants:
 1. Epochs increase strictly, and so do first offsets.
 2. The file on disk has every entry whose first offset is below the recovery point on disk: it is
    written before that point moves, and entries above it are rebuilt from the log.
 3. It has no entry from the end of the log on when a record is written there: a cut removes entries
    from the file before it removes records, and opening removes those of records that a crash has
    taken. Such an entry would be taken for that of the later record, if that one is damaged.
 4. Of the epochs of deleted records the last one is kept, from the offset below the start of the
    log on. By it a log without records can still be compared with others.
"""

from bisect import bisect_right

from penstock.log.checkpoint import decode_lines, encode_lines
from penstock.log.errors import CorruptCheckpoint
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import NO_LEADER_EPOCH, LeaderEpoch, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStart:
    epoch: LeaderEpoch
    start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The largest known epoch not above the one asked for, and the offset at which it ended."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class LeaderEpochs:
    """The epochs of one log, oldest first. `unsaved`: the file on disk is out of date."""

    __slots__ = ("_entries", "latest", "unsaved")

    def __init__(self) -> None:
        self._entries: list[EpochStart] = []
        self.latest: LeaderEpoch | None = None
        self.unsaved = False

    @classmethod
    def decode(cls, path: str, data: bytes) -> "LeaderEpochs":
        epochs = cls()
        for line in decode_lines(path, data, fields=2):
            epoch, start_offset = LeaderEpoch(line[0]), Offset(line[1])
            if epoch < 0 or start_offset < 0:
                raise CorruptCheckpoint(path, f"epoch {epoch} from offset {start_offset}")
            epochs.assign(epoch, start_offset)
        epochs.unsaved = False
        return epochs

    def encode(self, *, end_offset: Offset) -> bytes:
        """The file of a log that ends at `end_offset`; an epoch without a record is left out."""
        return encode_lines(
            f"{one.epoch} {one.start_offset}"
            for one in self._entries
            if one.start_offset < end_offset
        )

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        """The epoch of the record at `offset`."""
        slot = bisect_right(self._entries, offset, key=_start_offset) - 1
        return self._entries[slot].epoch if slot >= 0 else None

    def epoch_below(self, offset: Offset) -> LeaderEpoch:
        """The epoch of the last record below `offset`; NO_LEADER_EPOCH if none is known."""
        epoch = self.epoch_at(Offset(offset - 1))
        return NO_LEADER_EPOCH if epoch is None else epoch

    def end_of(self, epoch: LeaderEpoch, *, end_offset: Offset) -> EpochEnd | None:
        """Where `epoch` ended; None when it is newer than all known epochs, or none is known."""
        if not self._entries or epoch > self._entries[-1].epoch:
            return None
        if epoch == self._entries[-1].epoch:
            return EpochEnd(leader_epoch=epoch, end_offset=end_offset)
        after = bisect_right(self._entries, epoch, key=_epoch)
        # Older than all known epochs: its records are deleted, or were never here.
        found = self._entries[after - 1].epoch if after else epoch
        return EpochEnd(leader_epoch=found, end_offset=self._entries[after].start_offset)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Adds that `epoch` begins at `start_offset`; entries that contradict it are removed."""
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochStart(epoch=epoch, start_offset=start_offset))
        self._changed()

    def confirm(self, epoch: LeaderEpoch, *, first_offset: Offset, last_offset: Offset) -> None:
        """There is a batch of `epoch` with these offsets: entries that contradict it are removed,
        and those behind it with them.
        """
        if epoch < 0 or self.epoch_at(first_offset) == epoch == self.epoch_at(last_offset):
            return
        self.truncate_end(first_offset)
        while self._entries and self._entries[-1].epoch > epoch:
            self._entries.pop()
        self._changed()
        self.assign(epoch, first_offset)

    def truncate_end(self, end_offset: Offset) -> None:
        """Removes epochs that began at `end_offset` or later."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self._changed()

    def truncate_start(self, start_offset: Offset) -> None:
        """Records below `start_offset` are deleted: only the epoch of the last one is kept."""
        last_deleted = Offset(start_offset - 1)
        after = bisect_right(self._entries, last_deleted, key=_start_offset)
        if after == 0 or (after == 1 and self._entries[0].start_offset == last_deleted):
            return
        first = EpochStart(epoch=self._entries[after - 1].epoch, start_offset=last_deleted)
        self._entries[:after] = [first]
        self._changed()

    def clear(self) -> None:
        self._entries.clear()
        self._changed()

    def check(self) -> None:
        for earlier, later in zip(self._entries, self._entries[1:], strict=False):
            assert earlier.epoch < later.epoch, "invariant 1"
            assert earlier.start_offset < later.start_offset, "invariant 1"

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else None
        self.unsaved = True


def _start_offset(entry: EpochStart) -> Offset:
    return entry.start_offset


def _epoch(entry: EpochStart) -> LeaderEpoch:
    return entry.epoch
