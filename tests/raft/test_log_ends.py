"""The log as Raft sees it, against a list with the epoch of each record."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.log_ends import ORIGIN, LogEnd, LogEnds, SnapshotId


class LogEndsAgainstAList(RuleBasedStateMachine):
    """`epochs[n]` is the epoch of the record at offset n, deleted ones included."""

    def __init__(self) -> None:
        super().__init__()
        self.log = LogEnds()
        self.epochs: list[int] = []
        self.start = 0
        self.synced = 0
        self.syncing = 0  # what the sync under way makes durable

    @rule(later=st.integers(0, 2), count=st.integers(1, 4))
    def append(self, later: int, count: int) -> None:
        epoch = max(1, (self.epochs[-1] if self.epochs else 0) + later)
        self.epochs += [epoch] * count
        self.log.append(LeaderEpoch(epoch), Offset(len(self.epochs)))

    @rule(cut=st.integers(0, 6))
    def truncate(self, cut: int) -> None:
        offset = max(self.start, len(self.epochs) - cut)
        del self.epochs[offset:]
        self.synced = min(self.synced, offset)
        self.syncing = min(self.syncing, offset)
        self.log.truncate(Offset(offset))

    @rule()
    def begin_sync(self) -> None:
        self.syncing = len(self.epochs)
        self.log.begin_sync()

    @rule()
    def end_sync(self) -> None:
        """What was truncated since the sync began is not part of it, whatever stands there now."""
        self.synced = max(self.synced, self.syncing)
        self.log.end_sync()

    @precondition(lambda self: self.synced > self.start)
    @rule(data=st.data())
    def snapshot_and_trim(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start + 1, self.synced))
        self.log.made_snapshot(SnapshotId(Offset(offset), LeaderEpoch(self.epochs[offset - 1])))
        trimmed = data.draw(st.integers(self.start, offset))
        self.start = trimmed
        self.log.trim(Offset(trimmed))

    @rule(beyond=st.integers(0, 5), later=st.integers(0, 3))
    def install(self, beyond: int, later: int) -> None:
        """A snapshot that ends at or above the log's start; records below it are not known."""
        offset = max(1, self.start + beyond)
        epoch = max(1, (self.epochs[self.start - 1] if self.start else 0) + later)
        self.epochs = [0] * (offset - 1) + [epoch]
        self.start = self.synced = self.syncing = offset
        self.log.install(SnapshotId(Offset(offset), LeaderEpoch(epoch)))

    @invariant()
    def ends_agree(self) -> None:
        self.log.check()
        assert self.log.start_offset == self.start
        assert self.log.end_offset == len(self.epochs)
        assert self.log.synced_offset == self.synced
        assert self.log.is_synced == (self.synced == len(self.epochs))
        last = (
            LogEnd(LeaderEpoch(self.epochs[-1]), Offset(len(self.epochs))) if self.epochs else None
        )
        assert self.log.last == (last or ORIGIN)

    @invariant()
    def epochs_agree(self) -> None:
        for offset in range(self.start, len(self.epochs)):
            assert self.log.epoch_at(Offset(offset)) == self.epochs[offset]

    @invariant()
    def ends_of_epochs_agree(self) -> None:
        known = self.epochs[max(0, self.start - 1) :]  # the record before the start has an epoch
        for epoch in range(max(self.epochs, default=0) + 2):
            not_above = [one for one in known if one <= epoch]
            found = self.log.end_of(LeaderEpoch(epoch))
            if not_above:
                end_offset = len(self.epochs) - len(known) + len(not_above)
                assert found == (not_above[-1], end_offset)
            else:
                assert found == (0, self.start)


TestLogEndsAgainstAList = LogEndsAgainstAList.TestCase
