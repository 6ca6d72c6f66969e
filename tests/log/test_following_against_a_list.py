"""A follower's log holds what a plain list would hold, wherever runs end and crashes come."""

import random
from collections.abc import Callable
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.log.partition_log import PartitionLog
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from rig.logs import NOW_MS, make_batch, open_log
from rig.memory_disk import Crashed, MemoryDisk

TINY = TopicSettings(segment_bytes=600, index_interval_bytes=120)
NEVER = 10**6
Batch = tuple[int, int, int]  # base offset, next offset, epoch


def stored(log: PartitionLog) -> list[Batch]:
    return [
        (batch.base_offset, batch.next_offset, batch.leader_epoch)
        for batch in log.batches_from(log.start_offset)
    ]


class FollowerAgainstAList(RuleBasedStateMachine):
    """`batches` is the model, of what is above `start`; `end` is the log's end."""

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.disk.make_directory("/data")
        self.disk.sync_directory("/")
        self.opened = open_log(self.disk, settings=TINY)
        self.batches: list[Batch] = []
        self.start = self.end = self.epoch = 0
        self.synced = 0  # survives a power loss
        self.cut: list[list[Batch]] = []  # as it was before truncations, which are not synced yet
        self.watermark_max = 0  # of those noted, as far as what it covers is still there

    @property
    def log(self) -> PartitionLog:
        return self.opened.log

    @rule(
        counts=st.lists(st.tuples(st.integers(1, 5), st.sampled_from((0, 0, 0, 4)))),
        new_epoch=st.booleans(),
    )
    def follow(self, counts: list[tuple[int, int]], new_epoch: bool) -> None:
        """A run as a leader sends it; its log may be compacted."""
        self.epoch += new_epoch
        data = b""
        for count, gap in counts:
            base = self.end + gap
            batch = make_batch(base, count, epoch=self.epoch, producer=7, sequence=base)
            data += bytes(batch.view)
            self.end = base + count
            self.batches.append((base, self.end, self.epoch))
        taken = self.log.append_run(
            memoryview(data), leader_epoch=LeaderEpoch(self.epoch), now_ms=NOW_MS
        )
        assert taken == len(data)

    @rule()
    def lead_without_writing(self) -> None:
        self.epoch += 1
        self.log.begin_epoch(LeaderEpoch(self.epoch))

    @rule(back=st.integers(-3, 40), older_leader=st.booleans())
    def truncate(self, back: int, older_leader: bool) -> None:
        offset = max(0, self.end - back)
        self.cut.append(self.batches)
        self.log.truncate_to(Offset(offset))
        self._was_cut(offset)
        if older_leader and self.batches:
            self.epoch = self.batches[-1][2]

    @rule(back=st.integers(1, 60), calls=st.integers(0, 45), seed=st.integers(0, 99))
    def crash_in_a_truncation(self, back: int, calls: int, seed: int) -> None:
        """Killed if the seed is even, else powerless."""
        offset = max(0, self.end - back)
        self._crash_in(lambda: self.log.truncate_to(Offset(offset)), calls, seed, promised=offset)

    @rule(ahead=st.integers(1, 20), calls=st.integers(0, 45), seed=st.integers(0, 99))
    def crash_where_it_starts_anew(self, ahead: int, calls: int, seed: int) -> None:
        """The leader's log begins beyond the end of ours."""
        offset = Offset(self.end + ahead)
        self._crash_in(
            lambda: self.log.truncate_fully_and_start_at(offset), calls, seed, promised=0
        )

    @rule(ahead=st.integers(0, 20))
    def start_anew(self, ahead: int) -> None:
        offset = Offset(self.end + ahead)
        self.log.truncate_fully_and_start_at(offset)
        self.batches, self.start, self.end, self.synced = [], offset, offset, offset

    @precondition(lambda self: self.end > self.start)
    @rule(by=st.integers(1, 20))
    def advance_start(self, by: int) -> None:
        self.start = min(self.end, self.start + by)
        self.log.advance_start(Offset(self.start))
        self.batches = [batch for batch in self.batches if batch[1] > self.start]

    @rule(back=st.integers(0, 20), save=st.booleans())
    def note_watermark(self, back: int, save: bool) -> None:
        watermark = max(self.start, self.end - back)
        self.log.note_watermark(Offset(watermark))
        self.watermark_max = max(self.watermark_max, watermark)
        assert self.log.checkpointed_watermark == watermark
        if save:
            self.opened.directory.save_checkpoints()

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.opened.directory.save_checkpoints()
        self.synced = self.end
        self.cut.clear()

    @rule()
    def stop_cleanly(self) -> None:
        self.opened.directory.close()
        self.opened = open_log(self.disk, settings=TINY)
        assert self.log.recovery.segments_scanned == 0
        self.synced = self.end
        self.cut.clear()

    @rule()
    def kill(self) -> None:
        self.disk = self.disk.after_kill()
        self.opened = open_log(self.disk, settings=TINY)
        assert self.log.recovery.intact

    @rule(seed=st.integers(0, 99))
    def lose_power(self, seed: int) -> None:
        self._come_back(self.disk.after_power_loss(random.Random(seed)), promised=self.synced)

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        log = self.log
        log.check()
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        assert stored(log) == self.batches
        starts: dict[int, int] = {}
        for base_offset, _, epoch in self.batches:
            starts.setdefault(epoch, max(base_offset, self.start))
        entries = {one.epoch: one.start_offset for one in log.epochs.entries}
        written = {epoch: start for epoch, start in entries.items() if start < self.end}
        # One more may be that of the last deleted record.
        assert [epoch for epoch in written if epoch in starts] == list(starts)
        assert all(entries[one] == self.start - 1 for one in written if one not in starts)
        # After a gap an epoch may begin where the one before it ended.
        assert all(written[epoch] <= start for epoch, start in starts.items())
        for base_offset, _, epoch in self.batches:
            assert log.epoch_at(Offset(max(base_offset, self.start))) == epoch

    @invariant()
    def remembers_the_producer(self) -> None:
        if self.batches:
            memory = self.log.producers.by_id[7].batches[-1]  # type: ignore[index]
            assert memory.last_offset == self.batches[-1][1] - 1

    @invariant()
    def watermark_speaks_of_what_is_there(self) -> None:
        assert self.log.checkpointed_watermark <= max(self.start, self.watermark_max)

    def _crash_in(self, work: Callable[[], None], calls: int, seed: int, *, promised: int) -> None:
        self.cut.append(self.batches)
        self.disk.faults.crash_at = self.disk.faults.calls + calls
        with suppress(Crashed):
            work()
        self.disk.faults.crash_at = NEVER
        if seed % 2 == 0:
            self._come_back(self.disk.after_kill(), promised=promised)
        else:
            left = self.disk.after_power_loss(random.Random(seed))
            self._come_back(left, promised=min(promised, self.synced))

    def _come_back(self, disk: MemoryDisk, *, promised: int) -> None:
        """The log begins with what was promised, and goes on with some of the rest, or with what
        was cut off there: a truncation that is not synced may be undone.
        """
        self.disk = disk
        self.opened = open_log(disk, settings=TINY)
        log = self.log
        found = stored(log)
        candidates = [
            [batch for batch in batches if batch[1] > log.start_offset]
            for batches in (self.batches, *self.cut)
        ]
        assert any(found == kept[: len(found)] for kept in candidates)
        assert len(found) >= sum(batch[1] <= promised for batch in candidates[0])
        self.cut.append(found)
        self.epoch = max([self.epoch, *(batch[2] for batch in found)])
        self.batches, self.start, self.end = found, log.start_offset, log.end_offset
        self.synced = min(self.synced, self.end)
        self.watermark_max = min(self.watermark_max, max(self.end, self.start))

    def _was_cut(self, offset: int) -> None:
        end = self.log.end_offset
        self.batches = [batch for batch in self.batches if batch[1] <= offset]
        assert end == (self.batches[-1][1] if self.batches else end)
        assert end <= max(offset, self.end)
        self.end = end
        self.start = min(self.start, end)
        self.synced = min(self.synced, end)
        self.watermark_max = min(self.watermark_max, end)
        assert all(entry.start_offset < end for entry in self.log.epochs.entries)


TestFollowerAgainstAList = FollowerAgainstAList.TestCase
TestFollowerAgainstAList.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
