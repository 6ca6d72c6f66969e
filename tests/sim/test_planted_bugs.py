"""Each checker sees the bug that it is there for, planted in the node, within a few seeds."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from penstock.broker.network.dispatch import Dispatch
from penstock.client.consume import fetched_data
from penstock.log import directory, producer_snapshot, recovery, retention, snapshots
from penstock.log.compaction import cleaner
from penstock.log.directory import LogDirectory
from penstock.log.errors import CorruptLog
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_state import ProducerState
from penstock.model.identity import METADATA_TOPIC, ProducerId, TopicPartition
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.iterate import records_of
from penstock.records.keys import LATEST, SUPERSEDED, TOMBSTONE, KeyOffsets
from penstock.replication import leader
from penstock.replication.partition import Appended, Partition
from penstock.sim.disk import SimDisk
from penstock.sim.run import run_seed
from penstock.sim.scenario import FaultKind, draw
from penstock.world.errors import DiskError
from penstock.world.ports import File

SEEDS_MAX = 100
CRASHES = (FaultKind.KILL, FaultKind.KILL_IN_A_CALL)
POWER_LOSSES = (FaultKind.POWER_LOSS, FaultKind.POWER_LOSS_IN_A_CALL)
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.alters_code


def is_seen_by(*checkers: str, faults: tuple[FaultKind, ...] = (), likely: int = 0) -> bool:
    """Whether one of these checkers sees something within a few seeds. A bug that most of them miss
    has a likely one, which is tried before the others.
    """
    for seed in (likely, *range(SEEDS_MAX)):
        violation = run_seed(seed, draw(seed, faults)).violation
        if violation is not None and violation.startswith(checkers):
            return True
    return False


def test_an_ack_before_the_append_loses_records(monkeypatch: Patch) -> None:
    append = Partition.append
    early: dict[Partition, int] = {}

    def append_later(self: Partition, data: memoryview, **rest: Any) -> Any:
        batch = BatchView(memoryview(bytes(data)))
        base_offset = Offset(self.log.end_offset + early.get(self, 0))
        early[self] = early.get(self, 0) + batch.record_count

        def write() -> None:
            early[self] -= batch.record_count
            if not self.has_ended:
                append(self, memoryview(bytearray(batch.view)), **rest)

        asyncio.get_running_loop().call_later(0.02, write)
        # Nothing to wait for: the reply leaves at once.
        return Appended(base_offset=base_offset, end_offset=Offset(0), log_append_time_ms=-1)

    monkeypatch.setattr(Partition, "append", append_later)
    assert is_seen_by("lost records", faults=CRASHES)


def test_a_recovery_that_cuts_a_good_batch_loses_records(monkeypatch: Patch) -> None:
    scan = recovery._scan

    def scan_short(segment: Any, *rest: Any) -> Any:
        before = segment.size_bytes
        if before > 0 and segment.file.size == before:
            segment.cut_file(before - 1)
        return scan(segment, *rest)

    monkeypatch.setattr(recovery, "_scan", scan_short)
    assert is_seen_by("lost records", faults=CRASHES)


def test_a_sync_that_syncs_nothing_loses_what_was_promised(monkeypatch: Patch) -> None:
    sync = SimDisk.sync

    async def forget_data(self: SimDisk, files: Sequence[File]) -> None:
        await sync(self, [file for file in files if METADATA_TOPIC in file.path])

    monkeypatch.setattr(SimDisk, "sync", forget_data)
    assert is_seen_by("lost records", faults=POWER_LOSSES, likely=48)


def test_metadata_that_is_not_synced_is_missed(monkeypatch: Patch) -> None:
    async def sync_nothing(self: SimDisk, files: Sequence[File]) -> None:
        pass

    monkeypatch.setattr(SimDisk, "sync", sync_nothing)
    assert is_seen_by("metadata", faults=POWER_LOSSES, likely=41)


def test_a_new_directory_without_a_lasting_name_is_missed(monkeypatch: Patch) -> None:
    monkeypatch.setattr(directory, "make_lasting", SimDisk.make_directory)
    assert is_seen_by("metadata", "readable", faults=POWER_LOSSES)


def test_a_gap_between_offsets_is_seen(monkeypatch: Patch) -> None:
    assign = BatchView.assign
    appended = count(1)

    def assign_with_a_gap(self: BatchView, *, base_offset: int, leader_epoch: int) -> None:
        assign(
            self, base_offset=base_offset + (next(appended) % 10 == 0), leader_epoch=leader_epoch
        )

    monkeypatch.setattr(BatchView, "assign", assign_with_a_gap)
    assert is_seen_by("offsets")


def test_deleted_records_that_come_back_are_seen(monkeypatch: Patch) -> None:
    def advance_in_memory(self: LogDirectory, offsets: Mapping[TopicPartition, Offset]) -> None:
        for partition, offset in offsets.items():
            log = self.logs[partition]
            log.start_offset = log._memory.start_offset = max(offset, log.start_offset)

    monkeypatch.setattr(LogDirectory, "advance_starts", advance_in_memory)
    assert is_seen_by("offsets", faults=CRASHES, likely=22)


def test_a_node_that_forgets_its_producers_writes_duplicates(monkeypatch: Patch) -> None:
    original_settle = PartitionLog._settle

    def settle(self: PartitionLog, *, fresh: bool) -> None:
        original_settle(self, fresh=fresh)
        self.producers.by_id.clear()

    monkeypatch.setattr(PartitionLog, "_settle", settle)
    assert is_seen_by("duplicates", faults=(*CRASHES, FaultKind.SLOW_NETWORK))


def test_a_snapshot_of_last_batches_alone_leads_to_duplicates(monkeypatch: Patch) -> None:
    encode = producer_snapshot.encode_snapshot

    def encode_last(producers: dict[ProducerId, ProducerState]) -> bytes:
        return encode({one: replace(of, batches=of.batches[-1:]) for one, of in producers.items()})

    monkeypatch.setattr(snapshots, "encode_snapshot", encode_last)
    faults = (FaultKind.SLOW_DISK, FaultKind.STOP, FaultKind.KILL)
    assert is_seen_by("duplicates", faults=faults)


def test_a_leader_that_takes_what_follows_a_refused_batch_breaks_the_order(
    monkeypatch: Patch,
) -> None:
    check_sequence, append = leader.check_sequence, Partition.append
    asked = count(1)

    def take_any(batch: Any, producer: Any) -> Any:
        verdict = check_sequence(batch, producer)
        return verdict if isinstance(verdict, leader.Duplicate) else None

    def refuse_some(self: Partition, *arguments: Any, **named: Any) -> Any:
        if next(asked) % 7 == 0:
            raise DiskError(self.log.directory, "planted", full=True)
        return append(self, *arguments, **named)

    monkeypatch.setattr(leader, "check_sequence", take_any)
    monkeypatch.setattr(Partition, "append", refuse_some)
    assert is_seen_by("order")


def test_a_recovery_without_checksums_keeps_torn_batches(monkeypatch: Patch) -> None:
    def without_checksum(batch: BatchView, base_offset: int, end_offset: int) -> str | None:
        return None if batch.base_offset >= end_offset else "out of order"

    monkeypatch.setattr(recovery, "_error", without_checksum)
    assert is_seen_by("contents", faults=POWER_LOSSES, likely=29)


def test_a_log_that_refuses_to_open_after_a_crash_is_missed(monkeypatch: Patch) -> None:
    scan = recovery._scan

    def refuse(segment: Any, *rest: Any) -> Any:
        if segment.size_bytes > 0 and METADATA_TOPIC not in segment.path("log"):
            raise CorruptLog(segment.path("log"), position=0, reason="planted")
        return scan(segment, *rest)

    monkeypatch.setattr(recovery, "_scan", refuse)
    assert is_seen_by("readable", faults=CRASHES)


def test_a_flipped_bit_that_nobody_checks_for_is_seen(monkeypatch: Patch) -> None:
    class Trusting:
        def __init__(self, batch: BatchView) -> None:
            self._batch = batch

        def __getattr__(self, name: str) -> Any:
            return getattr(self._batch, name)

        def checksum_matches(self) -> bool:
            return True

    whole_batches: Callable[..., Any] = fetched_data.whole_batches
    monkeypatch.setattr(
        fetched_data, "whole_batches", lambda data: map(Trusting, whole_batches(data))
    )
    monkeypatch.setattr(fetched_data, "records_of", lambda batch: records_of(batch._batch))
    assert is_seen_by("contents", faults=(FaultKind.FLIPPED_BIT,))


def test_a_reply_that_is_dropped_is_missed(monkeypatch: Patch) -> None:
    answer = Dispatch.answer
    asked = count(1)

    def drop_some(self: Dispatch, frame: memoryview, api_key: int, **named: Any) -> Any:
        found = answer(self, frame, api_key, **named)
        return None if next(asked) % 60 == 0 and isinstance(found, list) else found

    monkeypatch.setattr(Dispatch, "answer", drop_some)
    assert is_seen_by("answers")


def test_a_high_watermark_beyond_the_end_breaks_an_invariant(monkeypatch: Patch) -> None:
    advance = Partition._advance

    def advance_too_far(self: Partition) -> None:
        advance(self)
        if self.log.end_offset == 7:
            self.high_watermark = self.log.end_offset + 1

    monkeypatch.setattr(Partition, "_advance", advance_too_far)
    assert is_seen_by("invariants")


def test_a_cleaner_that_drops_the_latest_value_of_a_key_is_seen(monkeypatch: Patch) -> None:
    class Careless(KeyOffsets):
        def fates(self, *arguments: Any) -> bytes:
            return bytes([SUPERSEDED]) * len(super().fates(*arguments))

    monkeypatch.setattr(cleaner, "KeyOffsets", Careless)
    assert is_seen_by("compaction")


def test_a_cleaner_that_drops_tombstones_before_their_values_is_seen(monkeypatch: Patch) -> None:
    class Hasty(KeyOffsets):
        def fates(self, *arguments: Any) -> bytes:
            # The values that a tombstone replaced stay; the tombstone goes at once.
            fates = super().fates(*arguments)
            return bytes(SUPERSEDED if fate == TOMBSTONE else LATEST for fate in fates)

    monkeypatch.setattr(cleaner, "KeyOffsets", Hasty)
    assert is_seen_by("compaction")


def test_retention_that_takes_young_segments_is_seen(monkeypatch: Patch) -> None:
    def all_are_old(
        segments: Any, first: int, may_go_until: int, retention_ms: int, now_ms: int
    ) -> int:
        return first if retention_ms < 0 else may_go_until

    monkeypatch.setattr(retention, "_old_end", all_are_old)
    assert is_seen_by("retention")


def test_retention_that_keeps_too_little_is_seen(monkeypatch: Patch) -> None:
    surplus_end = retention._surplus_end

    def one_too_many(segments: Any, first: int, may_go_until: int, retention_bytes: int) -> int:
        end = surplus_end(segments, first, may_go_until, retention_bytes)
        return end if end == first else min(end + 1, may_go_until)

    monkeypatch.setattr(retention, "_surplus_end", one_too_many)
    assert is_seen_by("retention", likely=21)


def test_a_log_that_begins_earlier_after_a_crash_is_seen(monkeypatch: Patch) -> None:
    def move_in_memory(self: LogDirectory, offsets: Mapping[TopicPartition, Offset]) -> None:
        for partition, offset in offsets.items():
            self.logs[partition].move_start(max(offset, self.logs[partition].start_offset))

    monkeypatch.setattr(LogDirectory, "move_starts", move_in_memory)
    monkeypatch.setattr(PartitionLog, "drop_oldest", lambda self: False)
    assert is_seen_by("retention", faults=CRASHES)
