"""A node that coordinates a third of many groups is killed: how long until all have a coordinator.

    python bench/groups_failover.py [--groups 1000] [--members 10] [--rounds 3]

Three nodes; classic groups, all stable, spoken by this program over at most 300 connections, and
five consumers of confluent-kafka, each in a group of its own. Members send heartbeats as consumers
do. In each round the node that coordinates most groups gets a SIGKILL. For each of its groups the
time is taken from the kill to the first heartbeat that is answered well; a member that is told to
join again is counted, and so is a committed offset that went back.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from brokers import TESTS
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from rich.console import Console
from rich.progress import Progress

from groups import TOPIC, commit, form
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.coordinators import Coordinators
from penstock.model.error import ErrorCode
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork

# The cluster is that of the tests.
sys.path.append(str(TESTS))

from rig.failover.cluster import PenstockSoftware, ReplicatedCluster
from rig.failover.questions import create_replicated, until_in_sync

CLIENTS = 100  # of this program; each has one connection to each node
REAL_CLIENTS = 5
HEARTBEAT_SECONDS = 3.0
OFFSETS_EACH = 10
FORMING = 50  # groups at one time
RETRY_MS = 20
LOOK_SECONDS = 0.1
SETTINGS = {"group.initial.rebalance.delay.ms": "500"}


@dataclass(slots=True, kw_only=True)
class Group:
    name: str
    coordinators: Coordinators
    members: list[str] = field(default_factory=list)
    generation: int = 1

    async def heartbeat(self, member: str) -> ErrorCode:
        """From the coordinator, wherever it is now."""
        request = HeartbeatRequest(
            group_id=self.name, generation_id=self.generation, member_id=member
        )
        reply = await self.coordinators.ask(
            self.name, request, HeartbeatResponse, code_of=lambda told: told.error_code
        )
        return ErrorCode(reply.error_code)


class Load:
    """All groups, and the tasks that keep their members alive."""

    def __init__(self, groups: list[Group]) -> None:
        self.groups = groups
        self.answers: Counter[ErrorCode] = Counter()
        self._tasks = [asyncio.create_task(self._live(group)) for group in groups]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _live(self, group: Group) -> None:
        await asyncio.sleep(hash(group.name) % 1000 / 1000 * HEARTBEAT_SECONDS)
        while True:
            self.answers.update(await asyncio.gather(*map(group.heartbeat, group.members)))
            await asyncio.sleep(HEARTBEAT_SECONDS)


class RealClients:
    """Consumers that commit what they have read, and notice when they lose their partitions."""

    def __init__(self, bootstrap: str) -> None:
        self.lost = 0
        self.committed = [-1] * REAL_CLIENTS
        self.went_back = 0
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._consume, args=(number, bootstrap))
            for number in range(REAL_CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _consume(self, number: int, bootstrap: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"real-{number}",
                "log_level": 0,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.protocol": "consumer" if number % 2 else "classic",
            }
        )

        def lost(*_: object) -> None:
            self.lost += 1

        consumer.subscribe([TOPIC], on_revoke=lost, on_lost=lost)
        offset = 0
        while not self._over.is_set():
            consumer.poll(0.05)
            if not consumer.assignment():
                continue
            try:
                consumer.commit(offsets=[Place(TOPIC, 0, offset)], asynchronous=False)
                [found] = consumer.committed([Place(TOPIC, 0)], 60)
            except Exception:
                continue
            self.went_back += found.offset < offset
            offset += 1
            self.committed[number] = offset
        consumer.close()


async def formed(stack: AsyncExitStack, bootstrap: str, groups: int, members: int) -> list[Group]:
    clients = []
    for _ in range(min(CLIENTS, groups)):
        addresses, rules = parse_addresses(bootstrap), ClusterRules(backoff_ms=RETRY_MS)
        cluster = Cluster(TcpNetwork(), RealClock(), addresses, rules=rules)
        clients.append(Coordinators(await stack.enter_async_context(cluster)))
    limit = asyncio.Semaphore(FORMING)
    made = [
        Group(name=f"service-{number}", coordinators=clients[number % len(clients)])
        for number in range(groups)
    ]
    with Progress() as progress:
        bar = progress.add_task("groups", total=groups)

        async def one(group: Group) -> None:
            async with limit:
                cluster = group.coordinators.cluster
                leader, group.generation, group.members = await form(cluster, group.name, members)
                await commit(cluster, group.name, (leader, group.generation), OFFSETS_EACH)
                progress.advance(bar)

        await asyncio.gather(*map(one, made))
    return made


async def strike(cluster: ReplicatedCluster, groups: list[Group]) -> list[float]:
    """Milliseconds from the kill to the first good answer, of each group of the killed node."""
    homes = {group.name: await group.coordinators.of(group.name) for group in groups}
    [(victim, _)] = Counter(homes.values()).most_common(1)
    struck = [group for group in groups if homes[group.name] == victim]
    cluster.nodes[victim].end(signal.SIGKILL)
    killed = time.perf_counter()

    async def answered(group: Group) -> float:
        code = await group.heartbeat(group.members[0])
        assert code == ErrorCode.NONE, f"{group.name}: {code.name}"
        return (time.perf_counter() - killed) * 1000

    taken = list(await asyncio.gather(*map(answered, struck)))
    await asyncio.to_thread(cluster.start, victim)
    await asyncio.to_thread(until_in_sync, cluster, TOPIC)
    return taken


async def run(cluster: ReplicatedCluster, asked: argparse.Namespace, console: Console) -> bool:
    async with AsyncExitStack() as stack:
        groups = await formed(stack, cluster.bootstrap, asked.groups, asked.members)
        load, real = Load(groups), RealClients(cluster.bootstrap)
        await settled(lambda: all(offset > 0 for offset in real.committed))
        for number in range(asked.rounds):
            await asyncio.sleep(HEARTBEAT_SECONDS)
            taken = sorted(await strike(cluster, groups))
            console.print(
                f"round {number + 1}: {len(taken)} groups of the killed node;"
                f" median {median(taken):,.0f} ms, p99 {quantiles(taken, n=100)[98]:,.0f} ms,"
                f" all after {taken[-1]:,.0f} ms"
            )
        before = list(real.committed)
        await settled(
            lambda: all(now > then for now, then in zip(real.committed, before, strict=True))
        )
        await asyncio.sleep(2 * HEARTBEAT_SECONDS)
        lost = real.lost
        await asyncio.to_thread(real.close)
        await load.close()
    answers = {code.name: count for code, count in load.answers.items()}
    console.print(f"heartbeats of {asked.groups * asked.members:,} members: {answers}")
    console.print(f"real consumers: partitions lost {lost} times, offsets back {real.went_back}")
    return set(answers) == {"NONE"} and not lost and not real.went_back


async def settled(is_so: Callable[[], bool]) -> None:
    def wait() -> None:
        while not is_so():
            time.sleep(LOOK_SECONDS)

    await asyncio.to_thread(wait)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="penstock-groups-") as folder:
        cluster = ReplicatedCluster(PenstockSoftware(), Path(folder), settings=SETTINGS)
        with cluster:
            cluster.start()
            create_replicated(cluster, TOPIC, partitions=OFFSETS_EACH)
            good = asyncio.run(run(cluster, asked, console))
    console.print("every member kept its partitions" if good else "[red]members had to join again")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
