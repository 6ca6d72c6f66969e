"""Carrying out a plan of faults on machines and on the network between them, to its end.

When the last fault has ended everything works as before the first; `require_healthy` then gives the
cluster a bounded virtual time to become healthy.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Protocol, assert_never

from penstock.sim.errors import Violation
from penstock.sim.fault_plan import FaultPlan, HostFaultKind, PlannedFault
from penstock.sim.host import Crash, Host
from penstock.sim.trace import Trace
from penstock.sim.wire import Wire

CALLS_MAX = 60  # how many changes of the disk an armed crash waits for, at most
LINKS_STRUCK = 0.6  # of those of a machine whose connections break
ROOM_BYTES_MAX = 4_000  # of a disk that is about to be full
JUMP_MS_MAX = 3_600_000
HEALTH_MS = 100
ONE_CUT, BOTH_CUT = 0.35, 0.7  # by the amount: which direction of a link is cut


class Target(Protocol):
    """A process that faults strike, and its machine: a SimNode or a SimProcess."""

    @property
    def host(self) -> Host: ...

    def crash(self, kind: Crash) -> None: ...

    def crash_in_a_call(self, kind: Crash, *, calls: int) -> None: ...

    def disarm(self) -> None: ...

    def stop(self) -> None: ...

    def keep_down(self) -> None: ...

    def let_start(self) -> None: ...


def _as_planned(fault: PlannedFault) -> PlannedFault:
    return fault


class HostFaults:
    def __init__(
        self,
        *,
        targets: Mapping[str, Target],
        bystanders: tuple[str, ...] = (),
        wire: Wire,
        trace: Trace,
        chance: Random,
        aim: Callable[[PlannedFault], PlannedFault] = _as_planned,
        flip: Callable[[str], None] | None = None,
        wipe: Callable[[str], None] | None = None,
    ) -> None:
        """By machine. Bystanders are machines that only partitions touch: those of clients, which
        are on the side of the majority, or on that of the minority, as it is drawn.
        `aim` may give a fault other machines when it is about to begin: that of the leader, which
        no plan knows. `flip` flips a bit on the disk of a machine, and `wipe`
        empties the directory with its records.
        """
        self._targets = targets
        self._bystanders = bystanders
        self._wire = wire
        self._trace = trace
        self._chance = chance
        self._aim = aim
        self._flip = flip
        self._wipe = wipe
        self._sides: dict[PlannedFault, tuple[list[str], list[str]]] = {}
        # By how many faults: those that were aimed at one machine may overlap.
        self._kept_down = Counter[str]()
        self._healthy_sync_us = {
            name: target.host.file_system.sync_us for name, target in targets.items()
        }

    async def carry_out(self, plan: FaultPlan) -> None:
        """Returns when the last fault has ended, and the time of the plan is over."""
        began_us = self._wire.loop.now_us
        moments = [
            *((fault.start_ms, 1, number) for number, fault in enumerate(plan.faults)),
            *((fault.end_ms, 0, number) for number, fault in enumerate(plan.faults)),
        ]
        struck: dict[int, PlannedFault] = {}
        for at_ms, begins, number in sorted(moments):
            await self._until(began_us + at_ms * 1000)
            if begins:
                struck[number] = self._aim(plan.faults[number])
            fault = struck[number]
            what = "begins" if begins else "ends"
            self._trace.note("fault", f"{fault.kind.value} {what}: {' '.join(fault.hosts)}")
            if begins and fault.kind in (HostFaultKind.PARTITION, HostFaultKind.ONE_WAY):
                self._divide(fault)
            elif begins and fault.kind is HostFaultKind.CUT_LINK:
                self._cut(fault)
            elif fault in self._sides:
                self._unite(fault)
            else:
                for name in fault.hosts:
                    (self._begin if begins else self._end)(fault, self._targets[name])
        await self._until(began_us + plan.lasts_ms * 1000)

    async def _until(self, moment_us: int) -> None:
        await asyncio.sleep(max(0, moment_us - self._wire.loop.now_us) / 1_000_000)

    def _begin(self, fault: PlannedFault, target: Target) -> None:
        host, kind = target.host, fault.kind
        calls = round(fault.amount * CALLS_MAX)
        match kind:
            case HostFaultKind.KILL | HostFaultKind.REPLACED_DISK | HostFaultKind.WIPED_DIRECTORY:
                self._keep_down(target)
                target.crash(Crash.KILL)
            case HostFaultKind.POWER_LOSS:
                self._keep_down(target)
                target.crash(Crash.POWER_LOSS)
            case HostFaultKind.KILL_IN_A_CALL:
                target.crash_in_a_call(Crash.KILL, calls=calls)
            case HostFaultKind.POWER_LOSS_IN_A_CALL:
                target.crash_in_a_call(Crash.POWER_LOSS, calls=calls)
            case HostFaultKind.STOP:
                self._keep_down(target)
                target.stop()
            case HostFaultKind.PAUSE:
                host.pause()
            case HostFaultKind.RESET:
                for link in self._wire.links_of(host.name):
                    if self._chance.random() < LINKS_STRUCK:
                        link.reset()
            case HostFaultKind.HALF_OPEN:
                for link in self._wire.links_of(host.name):
                    if self._chance.random() < LINKS_STRUCK:
                        link.silence()
            case HostFaultKind.SLOW_LINK:
                self._slow_down(host, 2_000 + round(fault.amount * 300_000))
            case HostFaultKind.SLOW_DISK:
                host.file_system.sync_us = (20_000, 20_000 + round(fault.amount * 1_200_000))
            case HostFaultKind.FULL_DISK:
                host.file_system.has_failed = True
                host.file_system.room = round(fault.amount * ROOM_BYTES_MAX)
            case HostFaultKind.CLOCK_JUMP:
                host.clock.ahead_ms += _jump_ms(fault)
            case HostFaultKind.FLIPPED_BIT:
                assert self._flip is not None, "a plan with flipped bits, and nobody flips them"
                self._flip(host.name)
            case HostFaultKind.PARTITION | HostFaultKind.ONE_WAY | HostFaultKind.CUT_LINK:
                raise AssertionError("a partition has two sides")
            case _:
                assert_never(kind)

    def _end(self, fault: PlannedFault, target: Target) -> None:
        host, kind = target.host, fault.kind
        match kind:
            case HostFaultKind.KILL | HostFaultKind.POWER_LOSS | HostFaultKind.STOP:
                self._let_start(target)
            case HostFaultKind.KILL_IN_A_CALL | HostFaultKind.POWER_LOSS_IN_A_CALL:
                target.disarm()
            case HostFaultKind.REPLACED_DISK:
                host.replace_disk()
                self._let_start(target)
            case HostFaultKind.WIPED_DIRECTORY:
                assert self._wipe is not None, "a plan with wiped directories, and nobody wipes"
                self._wipe(host.name)
                self._let_start(target)
            case HostFaultKind.PAUSE:
                host.resume()
            case HostFaultKind.SLOW_LINK:
                self._slow_down(host, None)
            case HostFaultKind.SLOW_DISK:
                host.file_system.sync_us = self._healthy_sync_us[host.name]
            case HostFaultKind.FULL_DISK:
                host.file_system.room = None
            case HostFaultKind.CLOCK_JUMP:
                host.clock.ahead_ms -= _jump_ms(fault)
            case _:
                pass  # over as soon as it had struck

    def _keep_down(self, target: Target) -> None:
        self._kept_down[target.host.name] += 1
        target.keep_down()

    def _let_start(self, target: Target) -> None:
        self._kept_down[target.host.name] -= 1
        if not self._kept_down[target.host.name]:
            target.let_start()

    def _divide(self, fault: PlannedFault) -> None:
        some = list(fault.hosts)
        others = [name for name in self._targets if name not in fault.hosts]
        for name in self._bystanders:
            (some if self._chance.random() < 0.3 else others).append(name)
        if fault.kind is HostFaultKind.PARTITION:
            self._wire.part(some, others)
            self._trace.remark("fault", f"cut: {' '.join(some)} | {' '.join(others)}")
        else:
            # Those struck cannot be heard, or cannot hear.
            some, others = (some, others) if fault.amount < 0.5 else (others, some)
            self._wire.block(some, others)
            self._trace.remark(
                "fault", f"cut: {' '.join(some)} are not heard by {' '.join(others)}"
            )
        self._sides[fault] = some, others

    def _cut(self, fault: PlannedFault) -> None:
        """One of two machines is not heard by the other, or neither of them by the other."""
        assert len(fault.hosts) > 1, fault
        one, other = fault.hosts[:2] if fault.amount < ONE_CUT else fault.hosts[1::-1]
        self._wire.block([one], [other])
        if fault.amount >= BOTH_CUT:
            self._wire.block([other], [one])
        self._sides[fault] = [one], [other]
        self._trace.remark("fault", f"cut: {one} is not heard by {other}")

    def _unite(self, fault: PlannedFault) -> None:
        some, others = self._sides.pop(fault)
        if fault.kind is HostFaultKind.CUT_LINK:
            self._wire.unblock(some, others)
            if fault.amount >= BOTH_CUT:
                self._wire.unblock(others, some)
        elif fault.kind is HostFaultKind.PARTITION:
            self._wire.join(some, others)
        else:
            self._wire.unblock(some, others)

    def _slow_down(self, host: Host, us_max: int | None) -> None:
        for name in (*self._targets, *self._bystanders):
            if name != host.name:
                self._wire.path(host.name, name).slow_us_max = us_max
                self._wire.path(name, host.name).slow_us_max = us_max


async def require_healthy(
    what_lacks: Callable[[], Awaitable[str | None]], *, within_ms: int
) -> int:
    """Waits until nothing lacks; how long that took, in ms. Violation when it takes too long."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while (lacking := await what_lacks()) is not None:
        elapsed_ms = round((loop.time() - began_s) * 1000)
        if elapsed_ms >= within_ms:
            raise Violation("health", f"{lacking}, {elapsed_ms} ms after the last fault has ended")
        await asyncio.sleep(HEALTH_MS / 1000)
    return round((loop.time() - began_s) * 1000)


def _jump_ms(fault: PlannedFault) -> int:
    return round((fault.amount - 0.5) * 2 * JUMP_MS_MAX)
