"""The demo: a shop's events through Spark, while a node and the driver are killed.

    a third of the events is out      the node that leads most gets a SIGKILL; the others take over
    half of them                      it is started again, and catches up
    two thirds, and rows come out     the Spark driver gets one, Java and all, and is started again
    all are out                       wait until every output is what it has to be, or nothing comes

What is written and what is read is one program here, so `Proof` can tell to the last record.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from penstock.cli.connect import RULES
from penstock.cli.demo_outputs import Outputs
from penstock.cli.demo_processes import DemoCluster, DemoDriver
from penstock.cli.pipeline_generate import send_events
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.model.identity import NodeId
from penstock.spark.pipelines.commerce.names import INVENTORY, ORDERS, PAYMENTS
from penstock.spark.pipelines.commerce.proof import OUTPUTS, Finding, Proof
from penstock.spark.pipelines.generated import Event
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork

INPUTS = (ORDERS, PAYMENTS, INVENTORY)
LOOK_SECONDS = 1.0
STARTS_MAX = 5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """How the demo tells what happens."""

    say: Say
    sent: Callable[[int], None]  # so many more events went in
    came: Callable[[int], None]  # so many more rows came out


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    cluster: DemoCluster
    driver: DemoDriver
    events: Iterator[Event]
    count: int
    silent_seconds_max: float  # nothing came out for so long: it will not come
    table: Callable[[], Mapping[str, int] | None]  # levels by article; None: there is no table


async def run_shop(shop: Shop, show: Show) -> list[Finding]:
    """What was found at the end, proven or not."""
    proof = Proof()
    outputs = Outputs(OUTPUTS)
    addresses = parse_addresses(shop.cluster.bootstrap)
    async with Cluster(TcpNetwork(), RealClock(), addresses, rules=RULES) as cluster:
        reading = asyncio.create_task(outputs.read_on(cluster, show.came))
        try:
            third = shop.count // 3
            await _send(shop, cluster, proof, show, third)
            await _some_output(shop, outputs, show, rows=1)
            number, led = await leader_of_most(cluster)
            node = shop.cluster.nodes[number]
            show.say(f"SIGKILL to node {number}, which leads {led} of the shop's partitions")
            await asyncio.to_thread(node.kill)
            await _send(shop, cluster, proof, show, third // 2)
            await asyncio.to_thread(node.start)
            show.say(f"node {number} is back, and catches up with what was acked meanwhile")
            await _send(shop, cluster, proof, show, third - third // 2)
            await _some_output(shop, outputs, show, rows=outputs.count + 1)
            show.say("SIGKILL to the Spark driver, with its Java and its open transactions")
            await asyncio.to_thread(shop.driver.kill)
            await _send(shop, cluster, proof, show, shop.count - 2 * third)
            shop.driver.start()
            show.say("a new driver goes on from the checkpoints; it takes some seconds to start")
            return await _complete(shop, proof, outputs, reading, show)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def leader_of_most(cluster: Cluster) -> tuple[NodeId, int]:
    """Which node leads most partitions of the topics that the shop writes to, and how many."""
    view = await cluster.need(INPUTS)
    leaders = Counter(
        partition.leader
        for topic in INPUTS
        for partition in view.topics[topic].partitions
        if partition.leader is not None
    )
    [(node, led)] = leaders.most_common(1)
    return node, led


async def _send(shop: Shop, cluster: Cluster, proof: Proof, show: Show, count: int) -> None:
    def noted() -> Iterator[Event]:
        for event in shop.events:
            proof.take(event)
            yield event

    await send_events(cluster, noted(), count=count, rate=None, progress=show.sent)


async def _some_output(shop: Shop, outputs: Outputs, show: Show, *, rows: int) -> None:
    """Waits until Spark is in the middle of it, since a kill of the idle proves little."""
    deadline_s = time.monotonic() + shop.silent_seconds_max
    while outputs.count < rows and time.monotonic() < deadline_s:
        _keep_running(shop, show)
        await asyncio.sleep(LOOK_SECONDS / 4)


async def _complete(
    shop: Shop, proof: Proof, outputs: Outputs, reading: "asyncio.Task[None]", show: Show
) -> list[Finding]:
    seen, seen_s = -1, time.monotonic()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if reading.done():
            reading.result()  # raises what ended it
        _keep_running(shop, show)
        if outputs.count != seen:
            seen, seen_s = outputs.count, time.monotonic()
            continue
        # Nothing came for a moment: it may be all.
        findings = proof.findings(outputs.found, await asyncio.to_thread(shop.table))
        silent = time.monotonic() - seen_s > shop.silent_seconds_max
        if silent or all(finding.proven for finding in findings):
            return findings


def _keep_running(shop: Shop, show: Show) -> None:
    """A driver that ended by itself is started again, as whoever runs one would do."""
    if shop.driver.ended and shop.driver.starts < STARTS_MAX:
        show.say(f"the driver ended: {shop.driver.last_line()}; another one goes on")
        shop.driver.start()
