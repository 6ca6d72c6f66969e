"""One real node on simulated storage: it lives, crashes, and is started again on what is left.

A life ends with a crash, with an error of its own, or with a clean stop; then the node is started
anew after a while. A crash trips the kill switch first, so that nothing more reaches disk or
network, and only then cancels the tasks of that life. Start reading at `SimNode.keep_alive`.
"""

import asyncio
from collections.abc import Mapping
from enum import Enum
from random import Random

from penstock.log.partition_log import PartitionLog
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import METADATA_TOPIC, NodeId, TopicPartition
from penstock.model.settings.broker import parse_broker
from penstock.node.build import OpenBroker, open_broker
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.sim.clock import SimClock
from penstock.sim.errors import ProcessKilled, Violation
from penstock.sim.file_system import FileSystem
from penstock.sim.history import History
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.network import Wire
from penstock.sim.trace import Trace
from penstock.sim.world import sim_world
from penstock.world.errors import DiskError
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup

ADDRESS = Address(host="broker", port=9092)
DIRECTORY = "/data"
CANCEL_ROUNDS_MAX = 20
START_MS_MAX = 60_000
STOP_MS_MAX = 60_000


class Crash(Enum):
    KILL = "kill"  # the page cache survives
    POWER_LOSS = "power loss"


class SimNode:
    def __init__(
        self,
        *,
        loop: SimLoop,
        chance: Random,
        clock: SimClock,
        file_system: FileSystem,
        wire: Wire,
        trace: Trace,
        history: History,
        settings: dict[str, str],
        lasting: frozenset[str],
    ) -> None:
        self.file_system = file_system
        self.broker: OpenBroker | None = None
        self.up = asyncio.Event()
        self.lives = 0
        self._loop = loop
        self._chance = chance
        self._clock = clock
        self._wire = wire
        self._trace = trace
        self._history = history
        self._lasting = lasting  # topics whose acks hold through a power loss
        self._config = NodeConfig(
            node_id=NodeId(1),
            data_directory=DIRECTORY,
            settings=parse_broker({"listeners": f"PLAINTEXT://{ADDRESS}", **settings}),
        )
        self._kill_switch = KillSwitch()
        self._crash = Crash.KILL
        self._tear_start_after: int | None = None
        self._stop_asked = asyncio.Event()
        self._settled = False  # no restart is slow or torn any more

    @property
    def calls(self) -> int:
        """How often this life has changed its disk."""
        return self._kill_switch.calls

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The logs that are open; none of a node that is crashing."""
        return {} if self.broker is None or self._kill_switch.is_tripped else self.broker.logs

    async def keep_alive(self) -> None:
        """Life after life, until cancelled."""
        while True:
            await self._live()
            self.up.clear()
            self.broker = None
            down_ms = 10 if self._settled else self._chance.choice((1, 20, 300, 1_500))
            await asyncio.sleep(down_ms / 1000)

    def crash(self, kind: Crash) -> None:
        """Now, between two steps of the node."""
        self._crash = kind
        self._kill_switch.trip()

    def crash_in_a_call(self, kind: Crash, *, calls: int) -> None:
        """Within a change of the disk, after so many others."""
        self._crash = kind
        if self.up.is_set():
            self._kill_switch.trip_after(calls)
        else:
            self._tear_start_after = calls

    def stop(self) -> None:
        self._stop_asked.set()

    def settle(self) -> None:
        """Faults are over: from now on a restart is quick, and no armed crash strikes."""
        self._settled = True
        self._tear_start_after = None
        self._stop_asked.clear()
        self._kill_switch.disarm()

    def check(self) -> None:
        """The invariants of the node as they are now."""
        if self.broker is not None and not self._kill_switch.is_tripped:
            try:
                self.broker.check()
            except AssertionError as broken:
                raise Violation("invariants", where(broken)) from broken

    async def _live(self) -> None:
        self.lives += 1
        owner = f"node {self.lives}"
        self._kill_switch = kill_switch = KillSwitch()
        if self._tear_start_after is not None:
            kill_switch.trip_after(self._tear_start_after)
            self._tear_start_after = None
        self._stop_asked.clear()
        self._history.restarted()
        self._trace.note("node", f"starts, life {self.lives}")
        world = sim_world(
            loop=self._loop, clock=self._clock, chance=self._chance, file_system=self.file_system,
            wire=self._wire, kill_switch=kill_switch, trace=self._trace, host=ADDRESS.host,
        )  # fmt: skip
        node = Node(lambda group: self._open(world, group))
        failure = await self._serve(node, owner, kill_switch)
        self._note_synced()
        if kill_switch.is_tripped:
            await self._end_by_crash(owner)
        else:
            await self._end_tasks(owner)
            self.file_system.process_killed()
        if failure is not None and not kill_switch.is_tripped:
            self._judge(failure)

    async def _open(self, world: World, group: TaskGroup) -> OpenBroker:
        self.broker = await open_broker(world, self._config, group)
        return self.broker

    async def _serve(self, node: Node, owner: str, kill_switch: KillSwitch) -> BaseException | None:
        """From the start to whatever ends this life; what went wrong, if it was not a crash."""
        starting = self._loop.start_for(owner, node.start(), name="start")
        await _first_of(starting, kill_switch.tripped, within_ms=START_MS_MAX)
        if kill_switch.is_tripped:
            return None
        if not starting.done():
            raise Violation("restart", f"the node has not started within {START_MS_MAX} ms")
        if starting.exception() is not None:
            return starting.exception()
        self._wire.server_is_up()
        self.up.set()
        self._trace.note("node", "is up")
        ended = self._loop.start_for(owner, node.failed(), name="failed")
        await _first_of(ended, kill_switch.tripped, self._stop_asked)
        if kill_switch.is_tripped:
            return None
        if ended.done():
            return ended.result()
        self.up.clear()
        stopping = self._loop.start_for(owner, node.stop(), name="stop")
        await _first_of(stopping, kill_switch.tripped, within_ms=STOP_MS_MAX)
        if not kill_switch.is_tripped and not stopping.done():
            raise Violation("restart", f"the node has not stopped within {STOP_MS_MAX} ms")
        if not kill_switch.is_tripped:
            self._trace.note("node", "has stopped")
            await asyncio.sleep(0)
            return ended.result() if ended.done() else None
        return None

    async def _end_by_crash(self, owner: str) -> None:
        kind = self._crash
        self._trace.note("node", f"crashes: {kind.value}")
        if kind is Crash.KILL:
            self._wire.server_killed()
        else:
            self._wire.server_lost_power()
        await self._end_tasks(owner)
        # What clients had received by then, they may still make up their minds about.
        await asyncio.sleep(0.001)
        if kind is Crash.KILL:
            self.file_system.process_killed()
            return
        self.file_system.power_lost()
        self._history.power_lost(lasting=self._lasting)

    async def _end_tasks(self, owner: str) -> None:
        for _ in range(CANCEL_ROUNDS_MAX):
            tasks = self._loop.tasks_of(owner)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.001)
        names = [task.get_name() for task in self._loop.tasks_of(owner)]
        raise Violation("restart", f"tasks outlive the end of their node: {names}")

    def _note_synced(self) -> None:
        """How far each log claimed to last when this life ended."""
        if self.broker is None:
            return
        for partition, log in self.broker.logs.items():
            if partition.topic != METADATA_TOPIC:
                known = self._history.of(partition)
                known.synced_offset = max(known.synced_offset, log.recovery_point)

    def _judge(self, failure: BaseException) -> None:
        """A node may give up for want of a disk, and for nothing else."""
        by_disk = isinstance(failure, DiskError) or (
            isinstance(failure, RequestError) and failure.code == ErrorCode.KAFKA_STORAGE_ERROR
        )
        if by_disk and self.file_system.has_failed:
            self._trace.note("node", f"gave up: {failure}")
            return
        if isinstance(failure, ProcessKilled):
            return
        raise Violation("restart", f"the node ended: {where(failure)}") from failure


async def _first_of(
    task: "asyncio.Task[object]", *happenings: asyncio.Event, within_ms: int | None = None
) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in happenings]
    try:
        await asyncio.wait(
            [task, *waits],
            timeout=None if within_ms is None else within_ms / 1000,
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        for wait in waits:
            wait.cancel()


def where(failure: BaseException) -> str:
    """The error, and the line of our code that raised it."""
    trace = failure.__traceback__
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/penstock/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(failure).__name__}: {failure} at {place}"
