"""A coordinator that forgets acked commits is found out within a few seeds."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from penstock.groups.replay import LatestRecords
from penstock.groups.shard import GroupShard
from penstock.machine.host import Host
from penstock.records.batch import BatchView
from penstock.records.latest import LatestValues
from penstock.sim.run import run_seed
from penstock.sim.scenario import FaultKind, draw

SEEDS_MAX = 30
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.alters_code


def is_seen(*faults: FaultKind, committers: int = 2) -> bool:
    for seed in range(SEEDS_MAX):
        scenario = replace(draw(seed, faults), committers=committers)
        violation = run_seed(seed, scenario).violation
        if violation is not None and violation.startswith("commits"):
            return True
    return False


def test_a_coordinator_without_a_bug_is_not_accused() -> None:
    assert not any(
        run_seed(seed, replace(draw(seed, (FaultKind.KILL,)), committers=2)).violation
        for seed in range(5)
    )


def test_a_load_that_skips_a_batch_now_and_then_is_seen(monkeypatch: Patch) -> None:
    add = LatestRecords.add
    batches = count(1)

    def add_most(self: LatestRecords, batch: BatchView) -> None:
        if next(batches) % 5:
            add(self, batch)

    monkeypatch.setattr(LatestRecords, "add", add_most)
    assert is_seen(FaultKind.KILL)


def test_a_load_in_the_wrong_order_takes_offsets_back(monkeypatch: Patch) -> None:
    add = LatestValues.add

    def add_unless_known(self: LatestValues, batch: BatchView) -> None:
        before = dict(self._values)
        add(self, batch)
        self._values.update(before)

    monkeypatch.setattr(LatestValues, "add", add_unless_known)
    assert is_seen(FaultKind.KILL)


def test_an_ack_that_does_not_wait_for_the_watermark_is_seen(monkeypatch: Patch) -> None:
    submit = Host.submit

    def submit_and_answer(self: Host[Any, Any], decide: Any, **rest: Any) -> None:
        submit(self, decide, **rest)
        if isinstance(self._machine, GroupShard):
            for held in self._held._waiting:
                if held.answer is not None:
                    held.answer(held.reply)
                    held.answer = None

    monkeypatch.setattr(Host, "submit", submit_and_answer)
    assert is_seen(FaultKind.POWER_LOSS, FaultKind.SLOW_DISK, committers=6)
