"""A register that a primary copies to two backups: small enough to be right, or wrong on purpose.

The first machine takes writes, stores each one, and acks it once one backup has stored it too. A
read asks all three machines, needs two answers, and takes the highest version. There is no
election: while the primary is away, nobody writes. What is acked survives any fault of one machine,
and a power loss of all of them, as every store is synced before it is told of.

    request     b"W" version(8) | b"R" 8 bytes of nothing
    reply       version(8)

`Bug` plants what a real system may get wrong.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum

from penstock.sim.entropy import stream
from penstock.sim.errors import Violation
from penstock.sim.fault_plan import FaultLimits, FaultPlan, draw_plan
from penstock.sim.host_faults import HostFaults, require_healthy
from penstock.sim.seed_figures import SeedFigures
from penstock.world.errors import DiskError, NetworkError
from penstock.world.ports import Stream, World
from penstock.world.tasks import TaskGroup
from rig.machines import Machines, address, listening, receive

NODES = ("node-1", "node-2", "node-3")
PRIMARY, BACKUPS = NODES[0], NODES[1:]
CLIENT = "client"
FILE = "/register"
CALL_S = 2
REQUEST_BYTES = 9
REPLY_BYTES = 8
HEALTHY_MS = 30_000
PAUSE_S = 0.2
LIMITS = FaultLimits(last_ms=12_000, length_ms_max=3_000)


class Bug(Enum):
    ACK_BEFORE_SYNC = "a store is told of before it is synced"
    ACK_WITHOUT_BACKUP = "a write is acked while no backup has it"
    ONE_BACKUP_READ = "a read asks one backup alone"


class Lost(Exception):
    """A read showed an older version than one that was acked before it began."""


class Replica:
    """One machine of the register."""

    def __init__(self, name: str, bug: Bug | None) -> None:
        self._name = name
        self._bug = bug

    async def main(self, world: World) -> None:
        disk = world.disk
        if not disk.exists(FILE):
            disk.write_whole(FILE, bytes(REPLY_BYTES))
            disk.sync_directory("/")
        async with listening(world, lambda stream: self._serve(world, stream)):
            await asyncio.Event().wait()

    async def _serve(self, world: World, stream: Stream) -> None:
        try:
            while len(request := await receive(stream, REQUEST_BYTES)) == REQUEST_BYTES:
                reply = await self._answer(world, request)
                if reply is None:
                    break
                await stream.send([reply])
        except NetworkError:
            pass
        stream.close()

    async def _answer(self, world: World, request: bytes) -> bytes | None:
        if request[:1] == b"R":
            return world.disk.read(FILE)
        version = request[1:]
        try:
            await self._store(world, version)
        except DiskError:
            return None
        if self._name != PRIMARY or self._bug is Bug.ACK_WITHOUT_BACKUP:
            return version
        return version if await self._copy(world, version) else None

    async def _store(self, world: World, version: bytes) -> None:
        file = world.disk.open(FILE)
        if version < file.read_at(0, REPLY_BYTES):
            return
        file.write_at(0, version)
        if self._bug is not Bug.ACK_BEFORE_SYNC:
            await world.disk.sync([file])

    async def _copy(self, world: World, version: bytes) -> bool:
        """Whether one backup at least has stored it."""
        calls = [asyncio.ensure_future(ask(world, name, b"W" + version)) for name in BACKUPS]
        stored = False
        for call in calls:
            stored = await call is not None or stored
        return stored


async def ask(world: World, name: str, request: bytes) -> bytes | None:
    """The reply of a machine, or None when there is none in time."""
    try:
        async with asyncio.timeout(CALL_S):
            stream = await world.network.connect(address(name))
            try:
                await stream.send([request])
                reply = await receive(stream, REPLY_BYTES)
            finally:
                stream.close()
    except (NetworkError, TimeoutError):
        return None
    return reply if len(reply) == REPLY_BYTES else None


class Client:
    """Writes one version after the other, and reads between them."""

    def __init__(self, bug: Bug | None) -> None:
        self._asks = BACKUPS[:1] if bug is Bug.ONE_BACKUP_READ else NODES
        self.acked = 0
        self.acks = 0
        self.reads = 0
        self._asked = 0

    async def main(self, world: World) -> None:
        async with TaskGroup() as group:
            group.start(self._write_on(world))
            while True:
                await self.read(world)
                await asyncio.sleep(PAUSE_S)

    async def _write_on(self, world: World) -> None:
        while True:
            await self.write(world)
            await asyncio.sleep(PAUSE_S)

    async def write(self, world: World) -> bool:
        self._asked += 1
        version = self._asked
        reply = await ask(world, PRIMARY, b"W" + version.to_bytes(8))
        if reply is None:
            return False
        self.acked = version
        self.acks += 1
        return True

    async def read(self, world: World) -> bool:
        before = self.acked
        calls = [asyncio.ensure_future(ask(world, name, b"R" + bytes(8))) for name in self._asks]
        replies = [reply for call in calls if (reply := await call) is not None]
        if len(replies) < min(2, len(self._asks)):
            return False
        self.reads += 1
        shown = max(int.from_bytes(reply) for reply in replies)
        if shown < before:
            raise Lost(f"version {shown} was read after {before} had been acked")
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    violation: str | None
    plan: FaultPlan
    figures: SeedFigures
    trace_hash: str


def simulate(
    seed: int,
    bug: Bug | None = None,
    *,
    plan: FaultPlan | None = None,
    limits: FaultLimits = LIMITS,
) -> Run:
    """One seed: the register, a client, faults, and a quiet time in which a write succeeds again.

    Without a plan it is the one of the seed.
    """
    machines = Machines(seed)
    if plan is None:
        plan = draw_plan(stream(seed, "plan of faults"), NODES, limits)
    client = Client(bug)
    violation = None
    try:
        machines.run(lambda machines: _scenario(machines, client, bug, plan))
    except (Lost, Violation) as error:
        violation = str(error)
    return Run(
        violation=violation,
        plan=plan,
        figures=SeedFigures(
            seed=seed,
            virtual_ms=machines.loop.now_us // 1000,
            leader_changes=0,
            acked=client.acks,
            steps=machines.loop.steps,
            faults=plan.count_by_kind,
        ),
        trace_hash=machines.trace.hash,
    )


async def _scenario(machines: Machines, client: Client, bug: Bug | None, plan: FaultPlan) -> None:
    for name in NODES:
        machines.start(name, Replica(name, bug).main)
    targets = dict(machines.processes)
    await asyncio.sleep(1)
    machines.start(CLIENT, client.main)
    faults = HostFaults(
        targets=targets,
        bystanders=(CLIENT,),
        wire=machines.wire,
        trace=machines.trace,
        chance=stream(machines.seed, "faults"),
    )
    await faults.carry_out(plan)
    before = client.acks

    async def what_lacks() -> str | None:
        return "no write succeeds" if client.acks == before else None

    await require_healthy(what_lacks, within_ms=HEALTHY_MS)
