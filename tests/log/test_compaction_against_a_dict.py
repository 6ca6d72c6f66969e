"""Written, deleted, rolled, compacted, reopened: a reader knows what a dict knows."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.model.offset import Offset
from penstock.records.compression import Codec
from rig.compacting import COMPACTED, clean, put, seal, state, stored
from rig.logs import NOW_MS, open_log
from rig.memory_disk import MemoryDisk

KEYS = st.sampled_from([f"key {n}" for n in range(6)])
VALUES = st.one_of(st.none(), st.text("xyz", max_size=40))
UPDATES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)


class CompactedLog(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.opened = open_log(self.disk, settings=COMPACTED)
        self.written: dict[int, tuple[str, str | None]] = {}
        self.known: dict[str, str] = {}
        self.cleaned: Offset | None = None
        self.now_ms = NOW_MS
        self.sequence = 0

    @rule(updates=UPDATES, codec=st.sampled_from([Codec.NONE, Codec.LZ4, Codec.GZIP]))
    def write(self, updates: list[tuple[str, str | None]], codec: Codec) -> None:
        log = self.opened.log
        for number, update in enumerate(updates):
            self.written[log.end_offset + number] = update
            key, value = update
            if value is None:
                self.known.pop(key, None)
            else:
                self.known[key] = value
        put(log, *updates, now_ms=self.now_ms, codec=codec, producer=7, sequence=self.sequence)
        self.sequence += len(updates)

    @rule()
    def roll(self) -> None:
        seal(self.opened.log)

    @rule(keys=st.integers(2, 40), resume=st.booleans())
    def compact(self, keys: int, resume: bool) -> None:
        log = self.opened.log
        log.sync()
        cleaned = self.cleaned if resume else None
        self.cleaned = clean(
            self.disk, log, cleaned_offset=cleaned, now_ms=self.now_ms, memory_bytes=24 * keys
        )

    @rule(days=st.integers(1, 3))
    def wait(self, days: int) -> None:
        self.now_ms += days * 43_200_000

    @rule(clean_stop=st.booleans())
    def reopen(self, clean_stop: bool) -> None:
        if clean_stop:
            self.opened.directory.close()
        self.disk = self.disk.after_kill()
        self.opened = open_log(self.disk, settings=COMPACTED)

    @invariant()
    def reader_knows_what_the_dict_knows(self) -> None:
        log = self.opened.log
        log.check()
        assert state(log) == self.known
        records = stored(log)
        offsets = [offset for offset, _, _ in records]
        assert offsets == sorted(set(offsets))
        for offset, key, value in records:
            assert self.written[offset] == (key, value)
        if self.sequence:
            [memory] = log.producers.by_id[7].batches[-1:]  # type: ignore[index]
            assert memory.last_sequence == self.sequence - 1


TestCompactedLog = CompactedLog.TestCase
TestCompactedLog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
