"""The state of a log besides its batches: producers and leader epochs, in memory and on disk.

Both follow from the batches: `take_up` applies a batch to them. The files (`.snapshot`,
`leader-epoch-checkpoint`) only save a restart from reading the whole log.
"""

from collections.abc import Sequence
from contextlib import suppress

from penstock.log import layout
from penstock.log.epochs import LeaderEpochs
from penstock.log.errors import CorruptCheckpoint, CorruptLog
from penstock.log.producer_replay import replay, take_up_control
from penstock.log.producer_state import ProducerStates
from penstock.log.segment import Segment
from penstock.log.snapshots import Snapshots
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import NO_LEADER_EPOCH, Offset
from penstock.records.batch import BatchHeader, BatchView
from penstock.records.layout import CONTROL_FLAG
from penstock.world.errors import DiskError
from penstock.world.ports import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedWith:
    """The markers that opening a log has passed, as `ProducerStates.ended` has them."""

    above: Offset  # all that end above it
    end_offset: Offset  # of the log
    ended: tuple[tuple[Offset, Offset], ...]


class LogMemory:
    """Producers and epochs of one log, with their files."""

    __slots__ = (
        "_disk",
        "_epochs_path",
        "_last_saved",
        "_saved_epochs",
        "_stored_epochs",
        "epochs",
        "epochs_are_absent",
        "epochs_are_lost",
        "opened",
        "producers",
        "replayed_from",
        "snapshots",
        "start_offset",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        snapshot_offsets: list[Offset],
        start_offset: Offset,
        producer_expiry_ms: int,
    ) -> None:
        self._disk = disk
        self._epochs_path = f"{directory}/{layout.LEADER_EPOCHS}"
        self.start_offset = start_offset
        self.producers = ProducerStates(expiry_ms=producer_expiry_ms)
        self.opened: OpenedWith | None = None
        self.replayed_from = start_offset  # by the last `load`: markers from there on were seen
        self.snapshots = Snapshots(disk, directory, snapshot_offsets)
        self._saved_epochs = LeaderEpochs().encode(end_offset=start_offset)
        self._last_saved: Offset | None = None  # where the last epoch of the file begins
        self.epochs_are_lost = False  # the file cannot be read: `relearn_epochs`
        self.epochs_are_absent = False  # there is no file, as in a log that was never synced
        self.epochs = self._read_epochs()
        self._stored_epochs = self.epochs.entries  # before `load` drops what it cannot confirm

    def take_up(self, batch: BatchView, segment: Segment) -> None:
        """Applies a batch that is now in `segment` to producers and epochs."""
        self._take_up_epoch(batch)
        if batch.attributes & CONTROL_FLAG:
            take_up_control(self.producers, batch, segment)
        else:
            self.producers.apply(batch)

    def take_up_run(
        self, batches: Sequence[BatchHeader], view: memoryview, segment: Segment
    ) -> None:
        """The same for the batches in `view`: records are looked at only in control batches."""
        if NO_LEADER_EPOCH < batches[0].leader_epoch != self.epochs.latest:
            # This replica may have led and written nothing: that epoch is not one of the log.
            self.epochs.truncate_end(self.producers.end_offset)
        position = 0
        for batch in batches:
            self._take_up_epoch(batch)
            end = position + batch.size_bytes
            if batch.attributes & CONTROL_FLAG:
                take_up_control(self.producers, BatchView(view[position:end]), segment)
            else:
                self.producers.apply(batch)
            position = end
        assert position == len(view), (position, len(view))

    def load(self, segments: list[Segment], *, until_offset: Offset, trust_absence: bool) -> None:
        """Loads the producers as of `until_offset`: from a snapshot, and from the batches after it.

        After a clean stop, a log without any snapshot had no producers: this is trusted, as in
        Apache Kafka, instead of reading the whole log. A snapshot that cannot be read does not
        count as absent.
        """
        if trust_absence and not self.snapshots.offsets:
            self.producers.clear(until_offset)
            self.replayed_from = until_offset
            return
        self.replayed_from = self.begin_replay(
            self.producers, until_offset, first_offset=self.start_offset
        )
        for _ in replay(self.producers, segments, until_offset=until_offset):
            pass
        self.producers.end_offset = max(until_offset, self.producers.end_offset)
        assert self.producers.end_offset == until_offset, (self.producers.end_offset, until_offset)

    def begin_replay(
        self, producers: ProducerStates, until_offset: Offset, *, first_offset: Offset
    ) -> Offset:
        """Sets `producers` to what they were at the newest snapshot, at or below `until_offset`, or
        to none at `first_offset`; returns where that is.

        A snapshot counts though all records before it are deleted: a producer may still repeat its
        last batch.
        """
        found = self.snapshots.newest(until_offset)
        if found is None:
            producers.clear(min(first_offset, until_offset))
        else:
            producers.restore(found[1], found[0])
        return producers.end_offset

    def producers_at(self, offset: Offset) -> ProducerStates | None:
        """The producers as of `offset`, if there is a snapshot of just that offset."""
        found = self.snapshots.newest(offset)
        if found is None or found[0] != offset:
            return None
        producers = ProducerStates(expiry_ms=self.producers.expiry_ms)
        producers.restore(found[1], offset)
        return producers

    def note_opened(self, *, above: Offset, end_offset: Offset) -> None:
        """`load`, and a scan behind it, have passed all batches above an offset if they began at or
        below it. `ProducerStates.note_ended` came before them.
        """
        if self.replayed_from <= above:
            self.opened = OpenedWith(
                above=above, end_offset=end_offset, ended=tuple(self.producers.ended)
            )
        self.producers.note_ended(None)

    def settle(self, segments: list[Segment], *, end_offset: Offset) -> None:
        """Removes producers and epochs of records that the opened log does not hold."""
        self.epochs.truncate_start(self.start_offset)
        self.epochs.truncate_end(end_offset)
        self.snapshots.remove_above(end_offset)
        self.snapshots.remove_strays({segment.base_offset for segment in segments})
        try:
            self.cut_saved_epochs(end_offset)
        except DiskError as error:
            if not error.full:
                raise  # else the next save does it

    def relearn_epochs(self, segments: list[Segment]) -> None:
        """Rebuilds the epochs from the headers of all batches: slow, with the same result. Those
        below the first segment stay: `learn_epochs` has them from records that are gone.
        """
        self.epochs.truncate_end(segments[0].base_offset)
        for segment in segments:
            for header in segment.headers():
                if _is_within(segment, header):
                    self._take_up_epoch(header)
        self.epochs.unsaved = True  # the file may be one that cannot be read
        self.epochs_are_lost = False

    def recall_epoch_below(self, start_offset: Offset) -> None:
        """The log, whose records below its start are gone, knows the epoch of the last of them if
        the file has an entry for just that one, and none if not: an entry of an earlier one may be
        older than the records between the two.
        """
        last_deleted = Offset(start_offset - 1)
        self.epochs.clear()
        for entry in self._stored_epochs:
            if entry.start_offset == last_deleted:
                self.epochs.assign(entry.epoch, last_deleted)

    def learn_epochs(self, segments: list[Segment]) -> None:
        """Corrects the epochs by the batches of `segments`, as far as these can be read: the file
        may be older than what they hold, and older than a truncation. What no batch contradicts
        stays, since the file may have it from batches that cannot be read any more.
        """
        for segment in segments:
            with suppress(CorruptLog, DiskError):
                for header in segment.headers():
                    if _is_within(segment, header):
                        self.epochs.confirm(
                            header.leader_epoch,
                            first_offset=header.base_offset,
                            last_offset=header.last_offset,
                        )

    def save_epochs(self, end_offset: Offset) -> None:
        """Writes the epochs, if the file is out of date; see invariant 2 of `log/epochs`."""
        if self.epochs.unsaved:
            data = self.epochs.encode(end_offset=end_offset)
            if data == self._saved_epochs:
                self._note_saved(data, end_offset)
            else:
                self._replace_saved(data, end_offset)

    def cut_saved_epochs(self, end_offset: Offset) -> None:
        """Removes the epochs from `end_offset` on from the file, if it has any; see invariant 3 of
        `log/epochs`. DiskError: the file may have lost them all the same. The next save puts those
        back whose records stay; until then a start finds them there, above the recovery point.
        """
        if self._last_saved is not None and self._last_saved >= end_offset:
            self._replace_saved(self.epochs.encode(end_offset=end_offset), end_offset)

    def write_epochs(self, end_offset: Offset) -> str | None:
        """The same without a sync; returns the path to be synced, if any."""
        data = self.epochs.encode(end_offset=end_offset)
        if not self.epochs.unsaved or data == self._saved_epochs:
            return None
        temporary = self._epochs_path + layout.TEMPORARY
        file = self._disk.open(temporary, create=True)
        file.truncate(0)
        file.append([data])
        file.close()
        self._disk.rename(temporary, self._epochs_path)
        self._note_saved(data, end_offset)
        return self._epochs_path

    def _take_up_epoch(self, batch: BatchHeader) -> None:
        epoch, latest = batch.leader_epoch, self.epochs.latest
        if epoch != latest and epoch >= 0 and (latest is None or epoch > latest):
            self.epochs.assign(epoch, batch.base_offset)

    def _replace_saved(self, data: bytes, end_offset: Offset) -> None:
        before = self._last_saved
        self._note_saved(data, end_offset)
        try:
            self._disk.write_whole(self._epochs_path, data)
        except DiskError:
            # The file is the old one or the new one: a sync may have failed after the rename.
            self._saved_epochs = b""
            self.epochs.unsaved = True
            if before is not None and (self._last_saved is None or self._last_saved < before):
                self._last_saved = before
            raise

    def _note_saved(self, data: bytes, end_offset: Offset) -> None:
        starts = [one.start_offset for one in self.epochs.entries]
        saved = [start for start in starts if start < end_offset]
        self._saved_epochs = data
        self._last_saved = saved[-1] if saved else None
        self.epochs.unsaved = len(saved) < len(starts)

    def _read_epochs(self) -> LeaderEpochs:
        if not self._disk.exists(self._epochs_path):
            self.epochs_are_absent = True
            return LeaderEpochs()
        data = self._disk.read(self._epochs_path)
        self._saved_epochs = data
        self.epochs_are_lost = not data  # what a power loss leaves of a name without its bytes
        try:
            epochs = LeaderEpochs.decode(self._epochs_path, data)
        except CorruptCheckpoint:
            self.epochs_are_lost = True
            return LeaderEpochs()
        self._last_saved = epochs.entries[-1].start_offset if epochs.entries else None
        return epochs


def _is_within(segment: Segment, header: BatchHeader) -> bool:
    """Whether the segment may have a batch with these offsets. Damage of the first one goes
    unnoticed otherwise: no checksum covers it.
    """
    last_offset_max = segment.base_offset + layout.RELATIVE_OFFSET_MAX
    return segment.base_offset <= header.base_offset <= header.last_offset <= last_offset_max
