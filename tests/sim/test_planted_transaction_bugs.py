"""Each checker of transactions sees the bug that it is there for, planted in the node."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from penstock.broker.coordinators.marker_sending import MarkerSending
from penstock.groups.offsets.pending import PendingOffsets
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import METADATA_TOPIC
from penstock.replication.guard import Guards
from penstock.replication.partition import Partition
from penstock.sim.disk import SimDisk
from penstock.sim.entropy import stream
from penstock.sim.run import run_seed
from penstock.sim.scenario import FaultKind, Scenario, draw, with_transactions
from penstock.transactions.state import Transaction
from penstock.world.ports import File

SEEDS_MAX = 40
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.alters_code


def scenario_of(seed: int, *faults: FaultKind) -> Scenario:
    """Applications that have it to themselves, and these faults."""
    drawn = with_transactions(draw(seed, faults), stream(seed, "planted"))
    return replace(drawn, producers=0, readers=0, has_admin=False, committers=0)


def is_seen_by(*checkers: str, faults: tuple[FaultKind, ...] = ()) -> bool:
    for seed in range(SEEDS_MAX):
        violation = run_seed(seed, scenario_of(seed, *faults)).violation
        if violation is not None and violation.startswith(checkers):
            return True
    return False


def test_a_node_without_a_bug_is_not_accused() -> None:
    assert [run_seed(seed, scenario_of(seed, FaultKind.KILL)).violation for seed in range(6)] == [
        None
    ] * 6


def test_a_marker_that_one_partition_does_not_get_is_missed(monkeypatch: Patch) -> None:
    send = MarkerSending.send

    def send_all_but_one(self: MarkerSending, led: Any, sent: Any) -> None:
        send(self, led, replace(sent, partitions=sent.partitions[1:] or sent.partitions))

    monkeypatch.setattr(MarkerSending, "send", send_all_but_one)
    assert is_seen_by("stable offset")


def test_an_abort_for_one_partition_of_a_commit_is_half_a_transaction(monkeypatch: Patch) -> None:
    end = Partition.end_transaction
    written = count(1)

    def end_otherwise(self: Partition, marker: Any, **rest: Any) -> Any:
        if next(written) % 5 == 0:
            marker = replace(marker, committed=False)
        return end(self, marker, **rest)

    monkeypatch.setattr(Partition, "end_transaction", end_otherwise)
    assert is_seen_by("atomicity")


def test_aborted_lists_that_are_forgotten_show_what_was_aborted(monkeypatch: Patch) -> None:
    monkeypatch.setattr(PartitionLog, "aborted_within", lambda *_, **__: ())
    assert is_seen_by("aborted read")


def test_readers_who_see_beyond_the_last_stable_offset_are_noticed(monkeypatch: Patch) -> None:
    beyond = property(lambda self: self.high_watermark)
    monkeypatch.setattr(Partition, "last_stable_offset", beyond)
    assert is_seen_by("aborted read")


def test_offsets_that_count_though_their_transaction_is_aborted_are_seen(
    monkeypatch: Patch,
) -> None:
    monkeypatch.setattr(
        PendingOffsets, "abort", lambda self, producer_id: list(self.commit(producer_id))
    )
    put = PendingOffsets.put
    forgotten = count(1)

    def put_most(self: PendingOffsets, record: Any) -> None:
        if next(forgotten) % 4:
            put(self, record)

    monkeypatch.setattr(PendingOffsets, "put", put_most)
    assert is_seen_by("transaction offsets")


def test_a_coordinator_that_listens_to_anybody_breaks_fencing(monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        Transaction, "is_held_by", lambda self, who: who.epoch <= self.identity.epoch
    )
    monkeypatch.setattr(Guards, "holds", lambda *_: True)
    assert is_seen_by("fencing")


def test_markers_that_are_not_resumed_after_a_crash_hold_readers_back(monkeypatch: Patch) -> None:
    monkeypatch.setattr("penstock.transactions.decide.resume", lambda shard, some: ())
    assert is_seen_by(
        "stable offset", "atomicity", faults=(FaultKind.KILL, FaultKind.KILL_IN_A_CALL)
    )


def test_a_sync_that_syncs_nothing_loses_what_was_promised(monkeypatch: Patch) -> None:
    sync = SimDisk.sync

    async def forget_data(self: SimDisk, files: Sequence[File]) -> None:
        await sync(self, [file for file in files if METADATA_TOPIC in file.path])

    monkeypatch.setattr(SimDisk, "sync", forget_data)
    assert is_seen_by("atomicity", "stable offset", faults=(FaultKind.POWER_LOSS,))
