"""Transactions committed and aborted, compacted, killed: a reader is given what was committed."""

import random
from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.log.compaction.cleaner import Finished
from penstock.model.offset import Offset
from penstock.records.compression import Codec
from rig.committed_reader import read_committed, stable_offset
from rig.compacting import (
    COMPACTED,
    Update,
    clean,
    clean_in_steps,
    end_transaction,
    put,
    seal,
    state_of,
    stored,
    text,
)
from rig.logs import NOW_MS, open_log
from rig.memory_disk import Crashed, MemoryDisk

KEYS = st.sampled_from([f"key {n}" for n in range(5)])
UPDATES = st.lists(st.tuples(KEYS, st.none() | st.text("xyz", max_size=60)), min_size=1, max_size=4)
PRODUCERS = st.integers(1, 3)
WITH_EPOCH_PER_TRANSACTION = (2, 3)
DAY_MS = COMPACTED.delete_retention_ms
CALLS_MAX = 2000


class TransactionalLog(RuleBasedStateMachine):
    """The model: every update with its offset, and which of them were committed."""

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.opened = open_log(self.disk, settings=COMPACTED)
        self.written: dict[int, Update] = {}
        self.committed: dict[int, bool] = {}
        self.undecided: defaultdict[int, list[int]] = defaultdict(list)
        self.epochs: defaultdict[int, int] = defaultdict(int)
        self.sequences: defaultdict[int, int] = defaultdict(int)
        self.cleaned: Offset | None = None
        self.now_ms = NOW_MS

    @rule(updates=UPDATES, codec=st.sampled_from([Codec.NONE, Codec.LZ4]))
    def write_outside_of_transactions(self, updates: list[Update], codec: Codec) -> None:
        for offset in self._note(updates):
            self.committed[offset] = True
        put(self.opened.log, *updates, now_ms=self.now_ms, codec=codec)

    @rule(producer=PRODUCERS, updates=UPDATES, transactional=st.sampled_from([True, True, False]))
    def write(self, producer: int, updates: list[Update], transactional: bool) -> None:
        offsets = self._note(updates)
        if transactional or self.undecided[producer]:
            transactional = True
            self.undecided[producer] += offsets
        else:
            self.committed.update(dict.fromkeys(offsets, True))
        put(
            self.opened.log,
            *updates,
            now_ms=self.now_ms,
            producer=producer,
            epoch=self.epochs[producer],
            sequence=self.sequences[producer],
            transactional=transactional,
        )
        self.sequences[producer] += len(updates)

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        """With or without records: a marker may come twice, or to where nothing was written."""
        if producer in WITH_EPOCH_PER_TRANSACTION:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        for offset in self.undecided.pop(producer, ()):
            self.committed[offset] = committed
        end_transaction(
            self.opened.log,
            producer,
            committed=committed,
            epoch=self.epochs[producer],
            now_ms=self.now_ms,
        )

    @rule()
    def roll(self) -> None:
        seal(self.opened.log)

    @rule(keys=st.integers(2, 40), resume=st.booleans())
    def compact(self, keys: int, resume: bool) -> None:
        self.opened.log.sync()
        self.cleaned = clean(
            self.disk,
            self.opened.log,
            cleaned_offset=self.cleaned if resume else None,
            now_ms=self.now_ms,
            memory_bytes=24 * keys,
        )

    @rule(crash_at=st.integers(1, 60), resume=st.booleans())
    def crash_while_compacting(self, crash_at: int, resume: bool) -> None:
        self.opened.log.sync()
        self.disk.faults.calls, self.disk.faults.crash_at = 0, crash_at
        try:
            for item in clean_in_steps(
                self.disk,
                self.opened.log,
                cleaned_offset=self.cleaned if resume else None,
                now_ms=self.now_ms,
            ):
                self.reader_is_given_what_was_committed()
                if isinstance(item, Finished):
                    self.cleaned = item.end_offset
        except Crashed:
            pass
        self.disk = self.disk.after_kill()
        self.opened = open_log(self.disk, settings=COMPACTED)

    @rule(halves=st.integers(1, 3))
    def wait(self, halves: int) -> None:
        self.now_ms += halves * DAY_MS // 2

    @rule(clean_stop=st.booleans())
    def reopen(self, clean_stop: bool) -> None:
        if clean_stop:
            self.opened.directory.close()
        self.disk = self.disk.after_kill()
        self.opened = open_log(self.disk, settings=COMPACTED)

    @invariant()
    def reader_is_given_what_was_committed(self) -> None:
        log = self.opened.log
        log.check()
        open_offsets = [min(offsets) for offsets in self.undecided.values() if offsets]
        until_offset = min(open_offsets, default=log.end_offset)
        assert stable_offset(log) == until_offset
        given = read_committed(log)
        offsets = [record.offset for record in given]
        assert offsets == sorted(set(offsets))
        for record in given:
            assert self.committed[record.offset], record
            key, value = self.written[record.offset]
            assert text(record.key) == key
            assert record.value == (None if value is None else value.encode())
        assert state_of(
            [
                (text(record.key), None if record.value is None else text(record.value))
                for record in given
            ]
        ) == state_of(
            [
                update
                for offset, update in self.written.items()
                if offset < until_offset and self.committed[offset]
            ]
        )
        # Wherever a reader begins, and however little it takes at once, it is given the same.
        for from_offset in range(log.start_offset, until_offset, 7):
            from_there = read_committed(log, from_offset, size_bytes_max=1)
            assert [one.offset for one in from_there] == [
                offset for offset in offsets if offset >= from_offset
            ]

    def _note(self, updates: list[Update]) -> range:
        end_offset = self.opened.log.end_offset
        self.written.update(enumerate(updates, end_offset))
        return range(end_offset, end_offset + len(updates))


TestTransactionalLog = TransactionalLog.TestCase
TestTransactionalLog.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_key_deleted_after_an_abort_of_the_same_producer_does_not_come_back() -> None:
    """The abort lies in the part that is compacted already, which later passes do not map."""
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"))
    put(log, ("bob", "1"), producer=1, sequence=0, transactional=True)
    end_transaction(log, 1, committed=False)
    seal(log)
    cleaned = clean(disk, log)
    put(log, ("ada", None), producer=1, sequence=1, transactional=True)
    end_transaction(log, 1, committed=True)
    seal(log)
    cleaned = clean(disk, log, cleaned_offset=cleaned)
    assert stored(log) == [(3, "ada", None)]


class Story:
    """Transactions that are compacted again and again."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.written: dict[int, Update] = {}
        self.aborted: set[int] = set()  # offsets
        self.promised_offset = Offset(0)  # all below it is synced

    def tell(self) -> None:
        opened = open_log(self.disk, settings=COMPACTED)
        log, cleaned, sequence = opened.log, None, 0
        for number in range(6):
            now_ms = NOW_MS + number * DAY_MS
            for producer, committed in ((1, True), (2, number % 2 == 1)):
                updates: list[Update] = [
                    (f"key {number % 3}", None if number == 4 else f"{producer} {number}" * 8),
                    (f"of {producer}", str(number)),
                ]
                offsets = range(log.end_offset, log.end_offset + 2)
                self.written.update(zip(offsets, updates, strict=True))
                if not committed:
                    self.aborted.update(offsets)
                put(
                    log,
                    *updates,
                    now_ms=now_ms,
                    producer=producer,
                    sequence=sequence,
                    transactional=True,
                )
                end_transaction(log, producer, committed=committed, now_ms=now_ms)
            sequence += 2
            seal(log)
            opened.directory.save_checkpoints()
            self.promised_offset = log.end_offset
            cleaned = clean(self.disk, log, cleaned_offset=cleaned, now_ms=now_ms)

    def committed_until(self, end_offset: int) -> dict[str, str]:
        return state_of(
            [
                update
                for offset, update in self.written.items()
                if offset < end_offset and offset not in self.aborted
            ]
        )

    def check_came_back(self, disk: MemoryDisk) -> None:
        log = open_log(disk, settings=COMPACTED).log
        log.check()
        given = read_committed(log)
        for record in given:
            assert record.offset not in self.aborted
            assert text(record.key) == self.written[record.offset][0]
        known = state_of(
            [
                (text(record.key), None if record.value is None else text(record.value))
                for record in given
            ]
        )
        assert known == self.committed_until(stable_offset(log))
        assert stable_offset(log) >= self.promised_offset


def test_whatever_the_moment_of_a_crash_readers_are_given_what_was_committed() -> None:
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        disk.make_directory("/data")
        disk.sync_directory("/")
        story = Story(disk)
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            story.tell()
        except Crashed:
            story.check_came_back(disk.after_kill())
            story.check_came_back(disk.after_power_loss(random.Random(crash_at)))
        else:
            return
    pytest.fail(f"the story takes more than {CALLS_MAX} calls")
