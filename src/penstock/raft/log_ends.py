"""The metadata log as Raft sees it: where it starts and ends, and which epoch wrote what.

Invariants:
 1. start_offset <= synced_offset <= end_offset.
 2. Epochs increase strictly, and so do their first offsets. Every record has an epoch, and so has
    the one before start_offset, which a snapshot holds: a follower whose log ends there names it.
 3. A log that starts above 0 has a snapshot that ends at or above its start.
"""

from typing import NamedTuple

from penstock.model.offset import LeaderEpoch, Offset, SnapshotId


class LogEnd(NamedTuple):
    """An offset and the epoch of the record before it. Ordered as Raft compares logs."""

    epoch: LeaderEpoch
    offset: Offset


ORIGIN = LogEnd(LeaderEpoch(0), Offset(0))


class LogEnds:
    """The ends and the epochs of one log; the records are the driver's."""

    def __init__(self) -> None:
        self.start_offset = Offset(0)
        self.end_offset = Offset(0)
        self.synced_offset = Offset(0)  # what is durable
        self.snapshot: SnapshotId | None = None  # the newest
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        self._syncing_to = Offset(0)  # what the sync under way makes durable

    @property
    def last(self) -> LogEnd:
        """The end, as votes compare it."""
        if not self._epochs:
            return ORIGIN
        return LogEnd(self._epochs[-1], self.end_offset)

    @property
    def is_synced(self) -> bool:
        """Whether the log is durable to its end."""
        return self.synced_offset == self.end_offset

    @property
    def epochs(self) -> list[tuple[LeaderEpoch, Offset]]:
        """Each epoch with its first offset, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def end_of(self, epoch: LeaderEpoch) -> LogEnd:
        """The largest epoch not above the one asked for, and where it ended."""
        end_offset = self.end_offset
        for slot in range(len(self._epochs) - 1, -1, -1):
            if self._epochs[slot] <= epoch:
                return LogEnd(self._epochs[slot], end_offset)
            end_offset = self._starts[slot]
        return LogEnd(LeaderEpoch(0), self.start_offset)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch of the record at an offset."""
        assert self.start_offset <= offset < self.end_offset, (offset, self.end_offset)
        slot = len(self._epochs) - 1
        while self._starts[slot] > offset:
            slot -= 1
        return self._epochs[slot]

    def append(self, epoch: LeaderEpoch, end_offset: Offset) -> None:
        """Records of one epoch were appended, up to `end_offset`."""
        assert end_offset > self.end_offset, (end_offset, self.end_offset)
        if not self._epochs or epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._starts.append(self.end_offset)
        assert self._epochs[-1] == epoch, (epoch, self._epochs)
        self.end_offset = end_offset

    def begin_sync(self) -> None:
        """What is in the log now is being made durable."""
        self._syncing_to = self.end_offset

    def end_sync(self) -> None:
        """It is durable, but for what was truncated meanwhile: other records may stand there."""
        self.synced_offset = max(self.synced_offset, self._syncing_to)

    def truncate(self, offset: Offset) -> None:
        """Cuts off everything from `offset` on, and the epochs that began there."""
        assert self.start_offset <= offset <= self.end_offset, (offset, self.end_offset)
        self.end_offset = offset
        self.synced_offset = min(self.synced_offset, offset)
        self._syncing_to = min(self._syncing_to, offset)
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()

    def made_snapshot(self, snapshot: SnapshotId) -> None:
        """A snapshot of what is committed here; the log may be trimmed to it."""
        assert self.start_offset <= snapshot.offset <= self.end_offset, snapshot
        if self.snapshot is None or snapshot.offset > self.snapshot.offset:
            self.snapshot = snapshot

    def trim(self, offset: Offset) -> None:
        """Everything below `offset` was deleted; a snapshot holds it."""
        assert self.snapshot is not None and offset <= self.snapshot.offset
        assert self.start_offset <= offset <= self.synced_offset, (offset, self.synced_offset)
        self.start_offset = offset
        while len(self._starts) > 1 and self._starts[1] < offset:
            del self._starts[0]
            del self._epochs[0]

    def install(self, snapshot: SnapshotId) -> None:
        """A snapshot of the leader takes the place of the whole log; its epoch is the first."""
        assert snapshot.offset > 0 and snapshot.offset >= self.start_offset, snapshot
        self.start_offset = self.end_offset = self.synced_offset = snapshot.offset
        self._syncing_to = snapshot.offset
        self.snapshot = snapshot
        self._epochs = [snapshot.epoch]
        self._starts = [Offset(snapshot.offset - 1)]  # of the last record that it holds

    def check(self) -> None:
        assert self.start_offset <= self.synced_offset <= self.end_offset  # invariant 1
        assert self._epochs == sorted(set(self._epochs)), self._epochs  # invariant 2
        assert self._starts == sorted(set(self._starts)), self._starts
        if self._starts:
            assert self._starts[0] <= max(0, self.start_offset - 1), self._starts
        else:
            assert self.end_offset == 0, self.end_offset
        if self.start_offset > 0:  # invariant 3
            assert self.snapshot is not None and self.snapshot.offset >= self.start_offset
