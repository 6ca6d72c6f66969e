"""A simulated machine: its name, clock, disk and randomness, its power, and whether it runs at all.

    pause, resume      as SIGSTOP and SIGCONT of its processes: none of their callbacks runs, their
                       connections stay open and fill; timers fire late, all at once, at the end
    crash              a killed process, whose peers are told at once; or a power loss, which nobody
                       is told of and which takes what was not synced
    replace_disk       an empty one, once no process runs

A machine runs one process at a time, on a `world` whose ports fail once its kill switch has
tripped; what it starts belongs to it and to the machine. `SimNode` and `SimProcess` are such
processes.
"""

import asyncio
from collections.abc import Coroutine
from enum import Enum
from random import Random
from typing import Any, TypeVar

from penstock.sim.clock import SimClock
from penstock.sim.entropy import stream
from penstock.sim.errors import Violation
from penstock.sim.file_system import FileSystem
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.pace import TRUE_PACE, Pace
from penstock.sim.trace import Trace
from penstock.sim.wire import Wire
from penstock.sim.world import sim_world
from penstock.world.ports import World

Result = TypeVar("Result")

CANCEL_ROUNDS_MAX = 20
OFFSET_US_MAX = 10_000_000_000  # what monotonic clocks show at the beginning: they never agree
DRIFT_PPM_MAX = 500


class Crash(Enum):
    KILL = "kill"  # the page cache survives
    POWER_LOSS = "power loss"


class Host:
    def __init__(
        self,
        name: str,
        *,
        loop: SimLoop,
        wire: Wire,
        trace: Trace,
        chance: Random,
        file_system: FileSystem,
        pace: Pace = TRUE_PACE,
    ) -> None:
        self.name = name
        self.chance = chance  # of its processes: the entropy they ask for
        self.clock = SimClock(loop, pace)
        self.file_system = file_system
        self.disks_replaced = 0
        self.boots = 1  # a power loss ends one
        self._loop = loop
        self._wire = wire
        self._trace = trace
        if pace != TRUE_PACE:
            loop.paces[name] = pace
        wire.add_host(name)

    @property
    def is_paused(self) -> bool:
        return self._loop.is_paused(self.name)

    def world(self, kill_switch: KillSwitch) -> World:
        """The ports of one process."""
        return sim_world(
            loop=self._loop, clock=self.clock, chance=self.chance, file_system=self.file_system,
            wire=self._wire, kill_switch=kill_switch, trace=self._trace, host=self.name,
            boot_id=f"{self.name} {self.boots}",
        )  # fmt: skip

    def start(
        self, owner: str, coroutine: Coroutine[Any, Any, Result], *, name: str
    ) -> asyncio.Task[Result]:
        """Starts a task of a process on this machine."""
        return self._loop.start_for(owner, coroutine, name=name, host=self.name)

    def pause(self) -> None:
        self._trace.note(self.name, "is paused")
        self._loop.pause(self.name)

    def resume(self) -> None:
        if self.is_paused:
            self._trace.note(self.name, "goes on")
            self._wire.excuse(self.name)
            # Which of them come first depends on where the process was stopped.
            self._loop.resume(self.name, timers_first=self.chance.random() < 0.5)

    def power_on(self) -> None:
        """Its system is up, and no process yet."""
        self._wire.machine_starts(self.name)

    def serves(self) -> None:
        """Its node is up."""
        self._wire.server_is_up(self.name)

    def lose_connections(self, crash: Crash) -> None:
        """The first that others see of a crash, if they see anything."""
        self._loop.resume(self.name)  # what has crashed is not paused any more
        if crash is Crash.KILL:
            self._wire.process_killed(self.name)
        else:
            self._wire.power_lost(self.name)

    def lose_memory(self, crash: Crash) -> None:
        """What the crash leaves of its disk. Its tasks have ended."""
        if crash is Crash.KILL:
            self.file_system.process_killed()
        else:
            self.boots += 1
            self.file_system.power_lost()

    def replace_disk(self) -> None:
        """With an empty one. No process has a file open."""
        self._trace.note(self.name, "has an empty disk")
        self.disks_replaced += 1
        self.file_system.erase()

    async def end_tasks(self, owner: str) -> None:
        """Cancels all tasks of a process, which must end without a word."""
        for _ in range(CANCEL_ROUNDS_MAX):
            tasks = self._loop.tasks_of(owner)
            if not tasks:
                self._loop.drop(owner)
                return
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.001)
        names = [task.get_name() for task in self._loop.tasks_of(owner)]
        raise Violation("restart", f"tasks outlive the end of their process: {names}")


def draw_host(name: str, *, seed: int, loop: SimLoop, wire: Wire, trace: Trace) -> Host:
    """A machine with streams of its own from the seed, and a clock that agrees with no other."""
    chance = stream(seed, f"clock of {name}")
    return Host(
        name,
        loop=loop,
        wire=wire,
        trace=trace,
        chance=stream(seed, f"processes of {name}"),
        file_system=FileSystem(stream(seed, f"disk of {name}")),
        pace=Pace(
            offset_us=chance.randrange(OFFSET_US_MAX),
            drift_ppm=chance.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
        ),
    )
