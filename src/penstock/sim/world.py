"""The World of a simulated process: ports that fail once its kill switch has tripped."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from random import Random
from typing import TypeVar

from penstock.sim.clock import SimClock
from penstock.sim.disk import SimDisk
from penstock.sim.entropy import SimEntropy
from penstock.sim.file_system import FileSystem
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.network import SimNetwork
from penstock.sim.trace import Trace
from penstock.sim.wire import Wire
from penstock.world.offload import run_inline, run_inline_on_disk
from penstock.world.ports import Rest, World

Item = TypeVar("Item")
Result = TypeVar("Result")


class SimOffload:
    """Long work, done where it stands: time passes only when somebody waits for it."""

    def __init__(self, disk: SimDisk, kill_switch: KillSwitch) -> None:
        self._disk = disk
        self._kill_switch = kill_switch

    def run(self, work: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        self._kill_switch.check()
        return run_inline(work, *arguments)

    def run_on_disk(
        self, work: Callable[..., Generator[Item | Rest, None, None]], *arguments: object
    ) -> AsyncGenerator[Item, None]:
        self._kill_switch.check()
        return run_inline_on_disk(self._disk, work, *arguments)

    def close(self) -> None:
        pass


def sim_world(
    *,
    loop: SimLoop,
    clock: SimClock,
    chance: Random,
    file_system: FileSystem,
    wire: Wire,
    kill_switch: KillSwitch,
    trace: Trace,
    host: str,
    boot_id: str = "first start",
) -> World:
    """The ports of one process; all of them fail once its kill switch has tripped."""
    disk = SimDisk(file_system, kill_switch, loop, trace)
    return World(
        clock=clock,
        entropy=SimEntropy(chance),
        disk=disk,
        network=SimNetwork(wire, kill_switch, host),
        offload=SimOffload(disk, kill_switch),
        boot_id=boot_id,
    )
