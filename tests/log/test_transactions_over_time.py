"""Segments rolled, cut off, deleted and reopened: a reader is given what was committed."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.log.aborted_index import decode_aborted
from penstock.log.partition_log import PartitionLog
from penstock.model.offset import Offset
from rig.committed_reader import read_committed, stable_offset
from rig.compacting import end_transaction, put, seal
from rig.logs import SMALL, open_log
from rig.memory_disk import MemoryDisk

PRODUCERS = st.integers(1, 3)
OUTSIDE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A batch of `count` records of a producer, or the marker of its transaction."""

    offset: int
    producer: int
    count: int = 1
    committed: bool | None = None  # None: it is no marker

    @property
    def end_offset(self) -> int:
        return self.offset + self.count


class TransactionalLog(RuleBasedStateMachine):
    """The model is the list of events; what a reader is given follows from it."""

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.opened = open_log(self.disk, settings=SMALL)
        self.events: list[Event] = []
        self.sequence = 0

    @property
    def log(self) -> PartitionLog:
        return self.opened.log

    @rule(producer=st.integers(OUTSIDE, 3), count=st.integers(1, 4))
    def write(self, producer: int, count: int) -> None:
        self.events.append(Event(offset=self.log.end_offset, producer=producer, count=count))
        updates = [("key", "x" * 40)] * count
        if producer == OUTSIDE:
            put(self.log, *updates)
        else:
            put(self.log, *updates, producer=producer, sequence=self.sequence, transactional=True)
            self.sequence += count

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        offset = self.log.end_offset
        self.events.append(Event(offset=offset, producer=producer, committed=committed))
        end_transaction(self.log, producer, committed=committed)

    @rule()
    def roll(self) -> None:
        seal(self.log)

    @rule(back=st.integers(1, 12))
    def cut_off(self, back: int) -> None:
        offset = max(self.log.start_offset, self.log.end_offset - back)
        self.log.truncate_to(Offset(offset))
        self.events = [event for event in self.events if event.end_offset <= self.log.end_offset]

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start = self.log.start_offset
        self.log.advance_start(Offset(start + int((self.log.end_offset - start) * share)))

    @rule(clean_stop=st.booleans())
    def reopen(self, clean_stop: bool) -> None:
        if clean_stop:
            self.opened.directory.close()
        self.disk = self.disk.after_kill()
        self.opened = open_log(self.disk, settings=SMALL)

    @invariant()
    def reader_is_given_what_was_committed(self) -> None:
        log = self.log
        log.check()
        until_offset = stable_offset(log)
        assert until_offset in self.stable_offsets()
        expected = [offset for offset in self.committed() if offset < until_offset]
        for from_offset in range(log.start_offset, until_offset, 5):
            for size_bytes_max in (1, 1000):
                given = read_committed(log, from_offset, size_bytes_max=size_bytes_max)
                assert [one.offset for one in given] == [
                    offset for offset in expected if offset >= from_offset
                ]

    @invariant()
    def sealed_segments_have_their_index_on_disk(self) -> None:
        for segment in self.log.segments[:-1]:
            path = segment.path(".txnindex")
            data = self.disk.read(path) if self.disk.exists(path) else b""
            stored = decode_aborted(data, base_offset=segment.base_offset)
            assert stored == segment.aborted_transactions

    def committed(self) -> list[int]:
        """Offsets of records that are there and in no aborted or open transaction."""
        offsets: list[int] = []
        for number, event in enumerate(self.events):
            if event.committed is None:
                decided = event.producer == OUTSIDE or self._fate(number, event.producer)
                offsets += range(event.offset, event.end_offset) if decided else ()
        return [offset for offset in offsets if offset >= self.log.start_offset]

    def stable_offsets(self) -> set[int]:
        """A transaction that has lost all its records is open until a restart forgets it."""
        start, end = self.log.start_offset, self.log.end_offset
        undecided = list(self._open())
        left = [event for event in undecided if event.end_offset > start]
        return {
            max(start, min((event.offset for event in events), default=end))
            for events in (undecided, left)
        }

    def _open(self) -> Iterator[Event]:
        for number, event in enumerate(self.events):
            is_data = event.committed is None and event.producer != OUTSIDE
            if is_data and self._fate(number, event.producer) is None:
                yield event

    def _fate(self, number: int, producer: int) -> bool | None:
        """How the transaction of an event ended, if it has."""
        for event in self.events[number:]:
            if event.producer == producer and event.committed is not None:
                return event.committed
        return None


TestTransactionalLog = TransactionalLog.TestCase
TestTransactionalLog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
