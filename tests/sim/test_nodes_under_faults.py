"""Plans of faults strike real nodes, which keep what they acked and come back."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from penstock.sim.disk import SimDisk
from penstock.sim.fault_plan import HostFaultKind
from penstock.world.ports import File
from rig.nodes_under_faults import LIMITS, ORDERS, simulate

SEEDS = 6


@pytest.mark.parametrize("seed", range(SEEDS))
def test_acked_records_survive_all_kinds_of_fault(seed: int) -> None:
    run = simulate(seed)
    assert run.violation is None
    assert run.figures.acked > 100
    assert run.figures.fault_count >= 3


@pytest.mark.parametrize(
    "kind",
    [
        HostFaultKind.KILL_IN_A_CALL,
        HostFaultKind.POWER_LOSS,
        HostFaultKind.POWER_LOSS_IN_A_CALL,
        HostFaultKind.PAUSE,
        HostFaultKind.FULL_DISK,
    ],
)
def test_acked_records_survive_many_faults_of_one_kind(kind: HostFaultKind) -> None:
    limits = replace(LIMITS, kinds=(kind,), faults_min=6)
    assert [simulate(seed, limits=limits).violation for seed in range(2)] == [None, None]


@pytest.mark.alters_code
def test_a_node_that_acks_what_was_not_synced_loses_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = SimDisk.sync

    async def sync_others(self: SimDisk, files: Sequence[File]) -> None:
        await sync(self, [file for file in files if ORDERS.topic not in file.path])

    monkeypatch.setattr(SimDisk, "sync", sync_others)
    limits = replace(LIMITS, kinds=(HostFaultKind.POWER_LOSS,))
    told = (simulate(seed, limits=limits).violation for seed in range(20))
    seen = next(one for one in told if one is not None)
    assert seen.startswith(("lost records", "offsets"))  # those of lost records are given again


def test_a_seed_is_one_run_of_nodes_under_faults() -> None:
    assert simulate(3).trace_hash == simulate(3).trace_hash
