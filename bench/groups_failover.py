"""A node that coordinates a third of many groups is killed: how long until all have a coordinator.

    python bench/groups_failover.py [--groups 1000] [--members 10] [--rounds 3] [--protocol both]

Three nodes; groups of the classic protocol, of the consumer protocol or half of each, all settled,
spoken by this program over at most 300 connections, and five consumers of confluent-kafka, each in
a group of its own. Members send heartbeats as consumers do, and one of each group commits. In each
round the node that coordinates most groups gets a SIGKILL. For each of its groups the time is taken
from the kill to the first acked commit: heartbeats of the classic protocol are answered well by a
coordinator that has not loaded the group yet, too. A member that is told to join again, or is given
another epoch or assignment, is counted, and so is a committed offset that went back.
Connections are counted before the first kill and after each. A consumer that commits nothing for
two minutes, or does not end, makes it fail.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import psutil
from brokers import TESTS
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from rich.console import Console
from rich.progress import Progress
from spoken_groups import HEARTBEAT_SECONDS, PROTOCOLS, SpokenGroup

from groups import TOPIC
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.coordinators import Coordinators
from penstock.model.error import ErrorCode
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork

# The cluster is that of the tests.
sys.path.append(str(TESTS))

from rig.cluster_questions import until
from rig.failover.cluster import PenstockSoftware, ReplicatedCluster
from rig.failover.questions import create_replicated, until_in_sync

BOTH = "both"
CLIENTS = 80  # of this program; each has one connection to each node
CONNECTIONS_MAX = 300
REAL_CLIENTS = 5
FORMING = 20  # groups at one time; classic ones take a connection of their own
RETRY_MS = 100  # as clients do
ANSWER_MS_MAX = 120_000  # then a group is given up
CLOSE_SECONDS_MAX = 90.0  # of all real clients together; a call of theirs takes up to 60
OFFSETS_TOPIC = "__consumer_offsets"
SETTINGS = {"group.initial.rebalance.delay.ms": "500"}


class RealClients:
    """Consumers that commit what they have read, and notice when they lose their partitions."""

    def __init__(self, bootstrap: str) -> None:
        self.lost = 0
        self.committed = [-1] * REAL_CLIENTS
        self.went_back = 0
        self.stuck = 0  # that had not ended in time
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._consume, args=(number, bootstrap), daemon=True)
            for number in range(REAL_CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        deadline = time.monotonic() + CLOSE_SECONDS_MAX
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))
        self.stuck = sum(thread.is_alive() for thread in self._threads)

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


class Load:
    """All groups; the members of each send heartbeats from the moment it is formed."""

    def __init__(self, groups: list[SpokenGroup]) -> None:
        self.groups = groups
        self._tasks: list[asyncio.Task[None]] = []

    async def form(self) -> None:
        limit = asyncio.Semaphore(FORMING)
        with Progress() as progress:
            bar = progress.add_task("groups", total=len(self.groups))

            async def one(group: SpokenGroup) -> None:
                async with limit:
                    await group.form()
                self._tasks.append(asyncio.create_task(group.live()))
                progress.advance(bar)

            await asyncio.gather(*map(one, self.groups))

    async def close(self) -> None:
        failed = [task.exception() for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not failed, f"{len(failed)} groups were given up: {failed[0]!r}"

    @property
    def answers(self) -> dict[str, int]:
        counted = sum((group.answers for group in self.groups), Counter[ErrorCode]())
        return {code.name: count for code, count in counted.items()}


async def load_of(stack: AsyncExitStack, bootstrap: str, asked: argparse.Namespace) -> Load:
    clients = []
    for _ in range(min(CLIENTS, asked.groups)):
        addresses = parse_addresses(bootstrap)
        rules = ClusterRules(backoff_ms=RETRY_MS, request_ms_max=ANSWER_MS_MAX)
        cluster = Cluster(TcpNetwork(), RealClock(), addresses, rules=rules)
        clients.append(Coordinators(await stack.enter_async_context(cluster)))
    kinds = [*PROTOCOLS] if asked.protocol == BOTH else [asked.protocol]
    return Load(
        [
            PROTOCOLS[kinds[number % len(kinds)]](
                f"service-{number}", clients[number % len(clients)], members=asked.members
            )
            for number in range(asked.groups)
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """What one kill brought about."""

    taken: dict[SpokenGroup, float]  # ms to the first acked commit, by group of the killed node
    connections: int  # once all of these had it


def connection_count() -> int:
    """Of this process, whichever state they are in."""
    return len(psutil.Process().net_connections("tcp"))


async def strike(cluster: ReplicatedCluster, groups: list[SpokenGroup]) -> Struck:
    homes = {group: await group.coordinators.of(group.name) for group in groups}
    [(victim, _)] = Counter(homes.values()).most_common(1)
    struck = [group for group in groups if homes[group] == victim]
    killed = time.perf_counter()
    os.kill(cluster.nodes[victim].pid, signal.SIGKILL)

    async def served(group: SpokenGroup) -> tuple[SpokenGroup, float]:
        code = await group.commit()
        assert code == ErrorCode.NONE, f"{group.name}: {code.name}"
        return group, (time.perf_counter() - killed) * 1000

    taken = dict(await asyncio.gather(*map(served, struck)))
    connections = connection_count()
    await asyncio.gather(*(group.check_offset() for group in struck))
    await asyncio.to_thread(cluster.nodes[victim].until_ended)
    await asyncio.to_thread(cluster.start, victim)
    for topic in (TOPIC, OFFSETS_TOPIC):
        await asyncio.to_thread(until_in_sync, cluster, topic)
    return Struck(taken=taken, connections=connections)


def show_round(number: int, taken: dict[SpokenGroup, float], console: Console) -> None:
    for protocol in PROTOCOLS:
        times = sorted(ms for group, ms in taken.items() if group.protocol == protocol)
        if len(times) > 1:
            console.print(
                f"round {number}: {len(times)} {protocol} groups of the killed node;"
                f" median {median(times):,.0f} ms, p99 {quantiles(times, n=100)[98]:,.0f} ms,"
                f" all after {times[-1]:,.0f} ms"
            )


async def run(cluster: ReplicatedCluster, asked: argparse.Namespace, console: Console) -> bool:
    async with AsyncExitStack() as stack:
        load = await load_of(stack, cluster.bootstrap, asked)
        started = time.perf_counter()
        await load.form()
        console.print(f"{asked.groups:,} groups formed in {time.perf_counter() - started:.1f} s")
        real = RealClients(cluster.bootstrap)
        try:
            await asyncio.to_thread(
                until, "every real client commits", lambda: min(real.committed) > 0
            )
            connections = [connection_count()]
            for number in range(1, asked.rounds + 1):
                await asyncio.sleep(max(HEARTBEAT_SECONDS.values()))
                struck = await strike(cluster, load.groups)
                connections.append(struck.connections)
                show_round(number, struck.taken, console)
            before = list(real.committed)
            await asyncio.to_thread(
                until,
                "every real client goes on",
                lambda: all(now > then for now, then in zip(real.committed, before, strict=True)),
            )
            await asyncio.sleep(2 * max(HEARTBEAT_SECONDS.values()))
            lost = real.lost
            await asyncio.gather(*(group.check_offset() for group in load.groups))
        finally:
            await asyncio.to_thread(real.close)
        await load.close()
    console.print(
        f"{max(connections)} connections at most, those of the real clients among them: before the"
        f" kills {connections[0]}, after each {', '.join(map(str, connections[1:]))}"
    )
    disturbed = sum(group.disturbed for group in load.groups)
    back = sum(group.went_back for group in load.groups)
    console.print(
        f"{asked.groups * asked.members:,} members: disturbed {disturbed} times, offsets back"
        f" {back} times; heartbeats and commits were answered with {load.answers}"
    )
    console.print(
        f"real consumers: partitions lost {lost} times, offsets back {real.went_back},"
        f" {real.stuck} did not end"
    )
    return not (
        disturbed
        or back
        or lost
        or real.went_back
        or real.stuck
        or max(connections) > CONNECTIONS_MAX
    ) and set(load.answers) == {"NONE"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--protocol", choices=(*PROTOCOLS, BOTH), default=BOTH)
    asked = parser.parse_args()
    console = Console(highlight=False, width=160)
    with tempfile.TemporaryDirectory(prefix="penstock-groups-") as folder:
        cluster = ReplicatedCluster(PenstockSoftware(), Path(folder), settings=SETTINGS)
        with cluster:
            cluster.start()
            create_replicated(cluster, TOPIC, partitions=asked.members)
            good = asyncio.run(run(cluster, asked, console))
    console.print("every member kept its partitions" if good else "[red]members were disturbed")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
