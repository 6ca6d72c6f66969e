"""Whatever is done to a log, it holds what a plain list would hold."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from rig.logs import NOW_MS, make_batch, open_log, read
from rig.memory_disk import MemoryDisk

TINY = TopicSettings(segment_bytes=600, index_interval_bytes=120)


class LogAgainstAList(RuleBasedStateMachine):
    """`batches` is the model: (base offset, next offset, epoch) of each."""

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.opened = open_log(self.disk, settings=TINY)
        self.batches: list[tuple[int, int, int]] = []
        self.start = 0
        self.epoch = 0
        self.end = 0
        self.deleted: int | None = None  # the epoch of the record below the start, if known

    @rule(counts=st.lists(st.integers(1, 5), min_size=1, max_size=4), new_epoch=st.booleans())
    def append(self, counts: list[int], new_epoch: bool) -> None:
        self.epoch += new_epoch
        views = []
        for count in counts:
            views.append(
                make_batch(self.end, count, epoch=self.epoch, producer=7, sequence=self.end)
            )
            self.batches.append((self.end, self.end + count, self.epoch))
            self.end += count
        self.opened.log.append(views, now_ms=NOW_MS)

    @rule()
    def roll(self) -> None:
        self.opened.log.roll()

    @rule()
    def lead_without_writing(self) -> None:
        self.epoch += 1
        self.opened.log.begin_epoch(LeaderEpoch(self.epoch))

    @rule(back=st.integers(0, 30), older_leader=st.booleans())
    def truncate(self, back: int, older_leader: bool) -> None:
        """As a follower does; the next batches may be of an older epoch than those cut off."""
        offset = max(self.start, self.end - back)
        self.opened.log.truncate_to(Offset(offset))
        kept = [batch for batch in self.batches if batch[1] <= offset]
        self.batches = kept if offset > self.start else []
        self.end = self.opened.log.end_offset
        assert self.end == (self.batches[-1][1] if self.batches else self.end)
        if self.end < self.start:
            self.start, self.deleted = self.end, None
        assert self.opened.log.start_offset == self.start
        assert all(entry.start_offset < self.end for entry in self.opened.log.epochs.entries)
        if older_leader:
            self.epoch = self.batches[-1][2] if self.batches else self.deleted or 0

    @precondition(lambda self: self.end > self.start)
    @rule(by=st.integers(1, 20))
    def advance_start(self, by: int) -> None:
        self.start = min(self.end, self.start + by)
        [self.deleted] = [one[2] for one in self.batches if one[0] < self.start <= one[1]]
        self.opened.log.advance_start(Offset(self.start))

    @rule()
    def sync(self) -> None:
        self.opened.log.sync()
        self.opened.directory.save_checkpoints()

    @rule()
    def stop_cleanly(self) -> None:
        self.opened.directory.close()
        self.opened = open_log(self.disk, settings=TINY)
        assert self.opened.log.recovery.segments_scanned == 0

    @rule()
    def kill(self) -> None:
        self.disk = self.disk.after_kill()
        self.opened = open_log(self.disk, settings=TINY)

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        log = self.opened.log
        log.check()
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        offset = self.start
        found = []
        while offset < self.end:
            for batch in read(log, offset, size_bytes_max=250):
                found.append((batch.base_offset, batch.next_offset, batch.leader_epoch))
                offset = batch.next_offset
        assert found == [batch for batch in self.batches if batch[1] > self.start]
        starts = {} if self.deleted is None else {self.deleted: self.start - 1}
        for base_offset, _, epoch in found:
            starts.setdefault(epoch, max(base_offset, self.start))
        entries = [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]
        assert [entry for entry in entries if entry[1] < self.end] == list(starts.items())

    @invariant()
    def remembers_the_producer(self) -> None:
        kept = [batch for batch in self.batches if batch[1] > self.start]
        if kept:
            memory = self.opened.log.producers.by_id[7].batches[-1]  # type: ignore[index]
            assert memory.last_offset == kept[-1][1] - 1


TestLogAgainstAList = LogAgainstAList.TestCase
TestLogAgainstAList.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
