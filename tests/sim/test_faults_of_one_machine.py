"""A fault of one machine leaves the disks and clocks of the others alone, and it ends."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from penstock.sim.clock import SimClock
from penstock.sim.fault_plan import FaultPlan, HostFaultKind, PlannedFault
from penstock.sim.host_faults import HostFaults
from penstock.world.errors import DiskError
from penstock.world.ports import World
from rig.machines import Machines, for_ever

NAMES = ("a", "b")
FILE = "/file"


class WritesOnce:
    """In its first life on each machine: a synced part and an unsynced one."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    async def main(self, world: World) -> None:
        disk, name = world.disk, world.network.host_name()
        if name not in self._written:
            self._written.add(name)
            file = disk.open(FILE, create=True)
            file.append([b"synced"])
            file.sync()
            disk.sync_directory("/")
            file.append([b"+" * 2_000])
        await for_ever(world)


class Struck:
    """Two machines after a fault of the first, or while it lasts."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    @property
    def clocks(self) -> dict[str, SimClock]:
        return {name: host.clock for name, host in self.machines.hosts.items()}

    def file(self, name: str) -> bytes | None:
        disk = self.machines.world(name).disk
        return disk.read(FILE) if disk.exists(FILE) else None


def strike(kind: HostFaultKind, *, seed: int, until_ms: int = 3_000, amount: float = 0.9) -> Struck:
    """The fault lasts from 1 s to 2 s; looked at when this much time has passed."""
    fault = PlannedFault(kind=kind, start_ms=1_000, end_ms=2_000, hosts=("a",), amount=amount)
    return strike_by_plan(fault, seed=seed, until_ms=until_ms)


def strike_by_plan(*planned: PlannedFault, seed: int, until_ms: int) -> Struck:
    machines = Machines(seed)

    async def scenario(machines: Machines) -> None:
        process = WritesOnce()
        for name in NAMES:
            machines.start(name, process.main)
        faults = HostFaults(
            targets=machines.processes, wire=machines.wire, trace=machines.trace, chance=Random(1)
        )
        carried_out = asyncio.ensure_future(faults.carry_out(FaultPlan(faults=planned)))
        await asyncio.sleep(until_ms / 1000)
        assert carried_out.done() == (until_ms > max(fault.end_ms for fault in planned))

    machines.run(scenario)
    return Struck(machines)


def test_a_power_loss_takes_what_was_not_synced_on_its_own_machine_alone() -> None:
    whole = b"synced" + b"+" * 2_000
    left = set()
    for seed in range(20):
        struck = strike(HostFaultKind.POWER_LOSS, seed=seed)
        assert struck.file("b") == whole
        left.add(struck.file("a"))
    assert all(data is not None and data.startswith(b"synced") for data in left)
    assert len(left) > 2
    assert b"synced" in left


@pytest.mark.parametrize("kind", [HostFaultKind.KILL, HostFaultKind.PAUSE])
def test_a_kill_and_a_pause_take_nothing(kind: HostFaultKind) -> None:
    struck = strike(kind, seed=1)
    assert struck.file("a") == struck.file("b") == b"synced" + b"+" * 2_000
    assert struck.machines.processes["a"].lives == (2 if kind is HostFaultKind.KILL else 1)


def test_a_replaced_disk_is_empty_and_the_other_one_is_not() -> None:
    struck = strike(HostFaultKind.REPLACED_DISK, seed=1)
    assert struck.machines.processes["a"].lives == 2
    assert struck.file("a") is None
    assert struck.file("b") is not None


def test_a_process_that_is_down_has_its_old_disk_until_the_new_one_comes() -> None:
    struck = strike(HostFaultKind.REPLACED_DISK, seed=1, until_ms=1_500)
    assert struck.file("a") is not None
    assert struck.machines.processes["a"].lives == 1


def test_a_machine_that_two_faults_keep_down_starts_after_the_later_one() -> None:
    first = PlannedFault(
        kind=HostFaultKind.KILL, start_ms=1_000, end_ms=2_000, hosts=("a",), amount=0.9
    )
    later = replace(first, kind=HostFaultKind.REPLACED_DISK, start_ms=1_500, end_ms=2_500)
    between = strike_by_plan(first, later, seed=1, until_ms=2_300)
    assert between.machines.processes["a"].lives == 1
    ended = strike_by_plan(first, later, seed=1, until_ms=3_500)
    assert ended.machines.processes["a"].lives == 2
    assert ended.file("a") is None


def test_a_full_disk_refuses_until_it_has_room_again() -> None:
    struck = strike(HostFaultKind.FULL_DISK, seed=1, until_ms=1_500)
    file = struck.machines.world("a").disk.open(FILE)
    with pytest.raises(DiskError, match="No space left"):
        file.append([bytes(5_000)])
    struck.machines.world("b").disk.open(FILE).append([bytes(5_000)])
    struck = strike(HostFaultKind.FULL_DISK, seed=1)
    struck.machines.world("a").disk.open(FILE).append([bytes(5_000)])


def test_a_slow_disk_is_slow_until_it_is_not() -> None:
    usual_us = strike(HostFaultKind.KILL, seed=1).machines.hosts["a"].file_system.sync_us
    struck = strike(HostFaultKind.SLOW_DISK, seed=1, until_ms=1_500)
    hosts = struck.machines.hosts
    assert hosts["a"].file_system.sync_us > usual_us == hosts["b"].file_system.sync_us
    ended = strike(HostFaultKind.SLOW_DISK, seed=1)
    assert ended.machines.hosts["a"].file_system.sync_us == usual_us


def test_a_wall_clock_jumps_and_comes_back_while_the_monotonic_one_goes_on() -> None:
    struck = strike(HostFaultKind.CLOCK_JUMP, seed=1, until_ms=1_500)
    clocks = struck.clocks
    assert clocks["a"].now_ms() - clocks["b"].now_ms() > 2_000_000
    assert abs(clocks["b"].pace.drift_ppm) <= 500
    elapsed_ms = clocks["a"].monotonic_ms() - clocks["a"].pace.offset_us // 1000
    assert 1_499 <= elapsed_ms <= 1_502
    ended = strike(HostFaultKind.CLOCK_JUMP, seed=1).clocks
    assert abs(ended["a"].now_ms() - ended["b"].now_ms()) <= 4


def test_monotonic_clocks_of_two_machines_have_nothing_to_do_with_each_other() -> None:
    hosts = strike(HostFaultKind.KILL, seed=1).machines.hosts
    assert abs(hosts["a"].clock.monotonic_ms() - hosts["b"].clock.monotonic_ms()) > 1_000


def test_entropy_of_two_machines_differs() -> None:
    machines = strike(HostFaultKind.KILL, seed=1).machines
    drawn = {machines.world(name).entropy.random_bytes(16) for name in NAMES}
    assert len(drawn) == 2


def test_a_fault_may_be_aimed_when_it_begins() -> None:
    machines = Machines(1)
    paused: list[str] = []

    async def scenario(machines: Machines) -> None:
        for name in NAMES:
            machines.start(name, for_ever)
        fault = PlannedFault(
            kind=HostFaultKind.PAUSE, start_ms=1_000, end_ms=2_000, hosts=("a",), amount=0.5
        )
        faults = HostFaults(
            targets=machines.processes,
            wire=machines.wire,
            trace=machines.trace,
            chance=Random(1),
            aim=lambda planned: replace(planned, hosts=("b",)),
        )
        striking = asyncio.create_task(faults.carry_out(FaultPlan(faults=(fault,))))
        await asyncio.sleep(1.5)
        paused.extend(name for name in NAMES if machines.hosts[name].is_paused)
        await striking
        assert not machines.hosts["b"].is_paused

    machines.run(scenario)
    assert paused == ["b"]
