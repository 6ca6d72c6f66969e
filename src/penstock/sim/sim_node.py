"""One real node on a simulated machine: it lives, crashes, and is started again on what is left.

A life ends with a crash, with an error of its own, or with a clean stop; then the node is started
anew after a while. A crash trips the kill switch first, so that nothing more reaches disk or
network, and only then cancels the tasks of that life. Start reading at `SimNode.keep_alive`.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from penstock.log.partition_log import PartitionLog
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import TopicPartition
from penstock.node.build import OpenNode, open_node
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.sim.errors import ProcessKilled, Violation
from penstock.sim.host import Crash, Host
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.trace import Trace
from penstock.sim.verdict import where
from penstock.world.errors import DiskError
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

DIRECTORY = "/data"
START_MS_MAX = 60_000
STOP_MS_MAX = 60_000
DOWN_MS = (1, 20, 300, 1_500)  # how long it may be down after a crash


class LifeWatch(Protocol):
    """Who wants to know of the lives of a node: a history that judges what they may lose."""

    def life_begins(self) -> None: ...

    def life_ends(self, broker: OpenNode | None) -> None:
        """For whatever reason, with the node as it was; None when it had not started."""

    def power_lost(self) -> None:
        """That was its end, and what was not synced may be gone."""


class SimNode:
    def __init__(
        self,
        host: Host,
        config: NodeConfig,
        *,
        trace: Trace,
        watch: LifeWatch,
        label: str = "node",
        down_ms: tuple[int, ...] = DOWN_MS,
        given_up_ms: int = 0,
        start_ms_max: int = START_MS_MAX,
    ) -> None:
        """`label` is what the trace calls it; `given_up_ms` is how long it stays down, at least,
        after it has ended for want of a disk.
        """
        self.host = host
        self.label = label
        self.broker: OpenNode | None = None  # from when it is up
        self.up = asyncio.Event()
        self.lives = 0
        self._parts: OpenNode | None = None
        self._config = config
        self._trace = trace
        self._watch = watch
        self._down_ms = down_ms
        self._given_up_ms = given_up_ms
        self._has_given_up = False  # in its last life
        self._start_ms_max = start_ms_max
        self._kill_switch = KillSwitch()
        self._crash = Crash.KILL
        self._tear_start_after: int | None = None
        self._stop_asked = asyncio.Event()
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._checked = 0, 0  # in which life, after how many calls
        self._settled = False  # no restart is slow or torn any more

    @property
    def calls(self) -> int:
        """How often this life has changed its disk."""
        return self._kill_switch.calls

    @property
    def parts(self) -> OpenNode | None:
        """The node as soon as its quorum runs: it may need the others to become ready."""
        if self._parts is None or self._kill_switch.is_tripped or not self._parts.local.is_open:
            return None
        return self._parts

    @property
    def last_image(self) -> Image | None:
        """The metadata as the node saw them last; also of one that is crashing."""
        return None if self._parts is None else self._parts.local.image

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The logs that are open; none of a node that is crashing."""
        return {} if self.broker is None or self._kill_switch.is_tripped else self.broker.logs

    def log_of(self, partition: TopicPartition) -> PartitionLog | None:
        """One of them, if it is open."""
        if self.broker is None or self._kill_switch.is_tripped:
            return None
        return self.broker.log_of(partition)

    @property
    def last_logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The logs as its process has them; also of one that is starting or crashing."""
        return {} if self._parts is None else self._parts.logs

    def last_log_of(self, partition: TopicPartition) -> PartitionLog | None:
        """One of them."""
        return None if self._parts is None else self._parts.log_of(partition)

    async def keep_alive(self) -> None:
        """Life after life, until cancelled."""
        while True:
            await self._live()
            self.up.clear()
            self.broker = self._parts = None
            down_ms = 10 if self._settled else self.host.chance.choice(self._down_ms)
            if self._has_given_up:
                down_ms = max(down_ms, self._given_up_ms)
            await asyncio.sleep(down_ms / 1000)
            await self._may_start.wait()

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

    def keep_down(self) -> None:
        """After its next end it does not start again until `let_start`."""
        self._may_start.clear()

    def let_start(self) -> None:
        self._may_start.set()

    def settle(self) -> None:
        """Faults are over: from now on a restart is quick, and no armed crash strikes."""
        self._settled = True
        self._stop_asked.clear()
        self.disarm()

    def disarm(self) -> None:
        """A crash in a call that has not come yet will not come."""
        self._tear_start_after = None
        self._kill_switch.disarm()

    def check(self) -> None:
        """The invariants of the node as they are now. A node that has neither written, received nor
        sent anything since the last time is as it was then.
        """
        touched = self.lives, self._kill_switch.checks
        if (
            self.broker is not None
            and not self._kill_switch.is_tripped
            and touched != self._checked
        ):
            self._checked = touched
            try:
                self.broker.check()
            except AssertionError as broken:
                raise Violation("invariants", where(broken)) from broken

    async def _live(self) -> None:
        self.lives += 1
        self._has_given_up = False
        owner = f"{self.label} {self.lives}"
        self._kill_switch = kill_switch = KillSwitch()
        if self._tear_start_after is not None:
            kill_switch.trip_after(self._tear_start_after)
            self._tear_start_after = None
        self._stop_asked.clear()
        self._watch.life_begins()
        self._trace.note(self.label, f"starts, life {self.lives}")
        self.host.power_on()
        world = self.host.world(kill_switch)
        node = Node(lambda group: self._open(world, group))
        failure = await self._serve(node, owner, kill_switch)
        self._watch.life_ends(self.broker)
        if kill_switch.is_tripped:
            await self._end_by_crash(owner)
        else:
            await self.host.end_tasks(owner)
            self.host.lose_memory(Crash.KILL)
        if failure is not None and not kill_switch.is_tripped:
            self._judge(failure)

    async def _open(self, world: World, group: TaskGroup) -> OpenNode:
        self.broker = await open_node(world, self._config, group, made=self._made)
        return self.broker

    def _made(self, node: OpenNode) -> None:
        self._parts = node

    async def _serve(self, node: Node, owner: str, kill_switch: KillSwitch) -> BaseException | None:
        """From the start to whatever ends this life; what went wrong, if it was not a crash."""
        starting = self.host.start(owner, node.start(), name="start")
        await _first_of(starting, kill_switch.tripped, within_ms=self._start_ms_max)
        if kill_switch.is_tripped:
            return None
        if not starting.done():
            raise Violation(
                "restart", f"{self.label} has not started within {self._start_ms_max} ms"
            )
        if starting.exception() is not None:
            return starting.exception()
        self.host.serves()
        self.up.set()
        self._trace.note(self.label, "is up")
        ended = self.host.start(owner, node.failed(), name="failed")
        await _first_of(ended, kill_switch.tripped, self._stop_asked)
        if kill_switch.is_tripped:
            return None
        if ended.done():
            return ended.result()
        self.up.clear()
        stopping = self.host.start(owner, node.stop(), name="stop")
        await _first_of(stopping, kill_switch.tripped, within_ms=STOP_MS_MAX)
        if not kill_switch.is_tripped and not stopping.done():
            raise Violation("restart", f"{self.label} has not stopped within {STOP_MS_MAX} ms")
        if not kill_switch.is_tripped:
            self._trace.note(self.label, "has stopped")
            await asyncio.sleep(0)
            return ended.result() if ended.done() else None
        return None

    async def _end_by_crash(self, owner: str) -> None:
        kind = self._crash
        self._trace.note(self.label, f"crashes: {kind.value}")
        self.host.lose_connections(kind)
        await self.host.end_tasks(owner)
        # What clients had received by then, they may still make up their minds about.
        await asyncio.sleep(0.001)
        self.host.lose_memory(kind)
        if kind is Crash.POWER_LOSS:
            self._watch.power_lost()

    def _judge(self, failure: BaseException) -> None:
        """A node may give up for want of a disk, and for nothing else."""
        by_disk = isinstance(failure, DiskError) or (
            isinstance(failure, RequestError) and failure.code == ErrorCode.KAFKA_STORAGE_ERROR
        )
        if by_disk and self.host.file_system.has_failed:
            self._trace.note(self.label, f"gave up: {failure}")
            self._has_given_up = True
            return
        if isinstance(failure, ProcessKilled):
            return
        raise Violation("restart", f"{self.label} ended: {where(failure)}") from failure


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
