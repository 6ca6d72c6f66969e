"""What groups cost a node: memory, and how long it takes to know them again after a restart.

    python bench/groups.py [--groups N] [--members N] [--offsets N]

A node of its own process gets classic groups, all stable, and committed offsets spread over them,
in the 50 partitions of `__consumer_offsets` that are the default. Then it is killed and started
again. Memory is the resident set, before the groups, with them, and after the restart; the load is
what the node itself logs, summed over the shards.
"""

import argparse
import asyncio
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.coordinators import Coordinators
from penstock.model.error import ErrorCode
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from penstock.world.clock import RealClock
from penstock.world.ports import Address
from penstock.world.tcp import TcpNetwork

READY = "penstock ready: "
LOADED = re.compile(r"coordinator .* loaded records=(\d+) took_ms=(\d+)")
MIB = 1024 * 1024
TOPIC = "orders"
SESSION_MS = 1_800_000
JOIN_WINDOW_MS = 500  # all members of a group come within it, and make one generation
AT_ONCE = 50  # groups that form at one time
WAIT_MS = 60_000


class Served:
    def __init__(self, data: Path) -> None:
        self.log = data.with_suffix(".log")
        command = [str(Path(sys.executable).with_name("penstock")), "serve", "--data", str(data)]
        command += ["--listen", "127.0.0.1:0"]
        command += ["--set", f"group.initial.rebalance.delay.ms={JOIN_WINDOW_MS}"]
        self.started = time.perf_counter()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), line
        self.ready_ms = (time.perf_counter() - self.started) * 1000
        host, _, port = line.removeprefix(READY).strip().rpartition(":")
        self.address = Address(host=host, port=int(port))

    @property
    def memory_mib(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / MIB

    @property
    def cpu_ms(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return (times.user + times.system) * 1000

    def loads(self) -> list[tuple[int, int]]:
        """Records and milliseconds of each shard that has been loaded."""
        found = LOADED.findall(self.log.read_text())
        return [(int(records), int(took)) for records, took in found]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


async def form(cluster: Cluster, group: str, members: int) -> tuple[str, int, list[str]]:
    """A stable group; the leader's id, the generation, and the ids of all members."""
    network, clock = TcpNetwork(), RealClock()
    async with Cluster(network, clock, list(cluster.bootstrap)) as own:
        channel = await own.channel(await Coordinators(own).of(group), Lane.QUESTIONS)
        subscription = write_embedded(ConsumerProtocolSubscription(topics=[TOPIC]), version=1)
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        joined = await asyncio.gather(
            *(
                channel.ask(join, JoinGroupResponse, timeout_ms=WAIT_MS, version=3)
                for _ in range(members)
            )
        )
        leader = joined[0].leader
        ids = [reply.member_id for reply in joined]
        assert {reply.generation_id for reply in joined} == {1}, "they came too late"
        for member in sorted(ids, key=lambda one: one != leader):
            parts = [SyncGroupRequestAssignment(member_id=one, assignment=bytes(60)) for one in ids]
            sync = SyncGroupRequest(
                group_id=group,
                generation_id=1,
                member_id=member,
                assignments=parts if member == leader else [],
            )
            synced = await channel.ask(sync, SyncGroupResponse, timeout_ms=WAIT_MS, version=3)
            assert synced.error_code == ErrorCode.NONE, synced
        return leader, 1, ids


async def commit(cluster: Cluster, group: str, member: tuple[str, int], count: int) -> None:
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member[0],
        generation_id_or_member_epoch=member[1],
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=1_000_000 + index
                    )
                    for index in range(count)
                ],
            )
        ],
    )
    channel = await cluster.channel(await Coordinators(cluster).of(group), Lane.QUESTIONS)
    reply = await channel.ask(request, OffsetCommitResponse, timeout_ms=WAIT_MS, version=9)
    codes = {told.error_code for topic in reply.topics for told in topic.partitions}
    assert codes == {ErrorCode.NONE}, codes


async def fill(address: Address, groups: int, members: int, offsets_each: int) -> None:
    async with Cluster(TcpNetwork(), RealClock(), [address]) as cluster:
        new = NewTopic(name=TOPIC, partitions=max(offsets_each, 1))
        first_refusal((await Admin(cluster).create_topics([new])).values())
        limit = asyncio.Semaphore(AT_ONCE)
        with Progress() as progress:
            bar = progress.add_task("groups", total=groups)

            async def one(number: int) -> None:
                async with limit:
                    name = f"service-{number}"
                    leader, generation, _ = await form(cluster, name, members)
                    await commit(cluster, name, (leader, generation), offsets_each)
                    progress.advance(bar)

            await asyncio.gather(*(one(number) for number in range(groups)))


def wait_for_load(served: Served, records: int) -> list[tuple[int, int]]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        loads = served.loads()
        if sum(found for found, _ in loads) >= records:
            return loads
        time.sleep(0.05)
    raise SystemExit(f"only {sum(found for found, _ in served.loads())} records were loaded")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--offsets", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        served = Served(data)
        idle_mib, cold_ready_ms = served.memory_mib, served.ready_ms
        asyncio.run(
            fill(served.address, asked.groups, asked.members, asked.offsets // asked.groups)
        )
        full_mib = served.memory_mib
        served.kill()
        again = Served(data)
        ready_cpu_ms = again.cpu_ms
        loads = wait_for_load(again, asked.offsets + asked.groups)
        load_cpu_ms = again.cpu_ms - ready_cpu_ms
        all_loaded_ms = (time.perf_counter() - again.started) * 1000
        loaded_mib = again.memory_mib
        again.kill()
    table = Table(
        title=f"{asked.groups:,} groups of {asked.members}, {asked.offsets:,} offsets; "
        f"Python {platform.python_version()}"
    )
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_row("memory of an idle node", f"{idle_mib:.0f} MiB")
    table.add_row("memory with the groups", f"{full_mib:.0f} MiB")
    table.add_row("memory after the restart", f"{loaded_mib:.0f} MiB")
    table.add_row("first start until ready", f"{cold_ready_ms:.0f} ms")
    table.add_row("restart after a kill until ready", f"{again.ready_ms:.0f} ms")
    table.add_row("and until all is loaded", f"{all_loaded_ms:.0f} ms")
    table.add_row("loading, all shards", f"{sum(took for _, took in loads)} ms")
    table.add_row("CPU of the node from ready to loaded", f"{load_cpu_ms:.0f} ms")
    table.add_row("records loaded", f"{sum(records for records, _ in loads):,}")
    Console().print(table)


if __name__ == "__main__":
    main()
