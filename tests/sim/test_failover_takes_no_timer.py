"""How long a partition cannot be written when its leader stops or is killed, in simulated time.

There packets take up to a millisecond, syncs little more, and computing nothing: whatever takes
longer is a timer that somebody waits for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.metadata.image.image import Image
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import configs, format_nodes, machine
from penstock.sim.entropy import stream
from penstock.sim.host import Crash
from penstock.sim.sim_node import SimNode
from rig.machines import Machines, address
from rig.one_controller import BROKERS, CONTROLLER, start_nodes

WAIT_S = 60
ORDERS = "orders"
PARTITIONS = 3
SETTINGS = {"min.insync.replicas": "2"}
BACKOFF_MS = 100  # of the client, as by default
STOP_MS_MAX = 50  # a client that knows KIP-951 waits for nothing else
KILL_MS_MAX = 3 * BACKOFF_MS  # it cannot know when to ask again
PAUSE_S = 0.002
SETTLED_RECORDS = 20
AFTERWARDS_MS = 1_000


class OneByOne:
    """Writes one record after the other; when each was begun and acked, in simulated ms."""

    def __init__(self, machines: Machines, partition: int) -> None:
        self.written: list[tuple[float, float]] = []
        self.is_over = False
        self._machines = machines
        self._partition = partition

    @property
    def now_ms(self) -> float:
        return self._machines.loop.now_us / 1000

    async def write(self) -> None:
        rules = ProducerRules(batches=BatchRules(linger_ms=0, backoff_ms=BACKOFF_MS))
        async with client(self._machines) as cluster, Producer(cluster, rules=rules) as producer:
            while not self.is_over:
                begun_ms = self.now_ms
                await (await producer.send(ORDERS, b"value", partition=self._partition))
                self.written.append((begun_ms, self.now_ms))
                await asyncio.sleep(PAUSE_S)

    def longest_ms(self, *, since_ms: float) -> float:
        return max(acked - begun for begun, acked in self.written if acked > since_ms)


def client(machines: Machines) -> Cluster:
    world = machines.world("client")
    addresses = [address(name) for name in machines.nodes]
    rules = ClusterRules(backoff_ms=BACKOFF_MS)
    return Cluster(world.network, world.clock, addresses, rules=rules)


async def longest_wait_ms(
    machines: Machines, *, active: bool, end: Callable[[SimNode], None]
) -> float:
    """Ends a leader that is the active controller, or one that is not."""
    laid_out = configs(3, SETTINGS)
    format_nodes(machines, laid_out, stream(machines.seed, "formatting"))
    for name, config in laid_out.items():
        machines.start_node(name, config)
    for node in machines.nodes.values():
        await node.up.wait()
    await create_topic(machines)
    controller = Inspection(machines.nodes).leader()
    leader, partition = next(
        (machine(int(one.leader)), index)
        for index, one in enumerate(image_of(machines).topics_by_name[ORDERS].partitions)
        if one.leader is not None and (machine(int(one.leader)) == controller) == active
    )
    writer = OneByOne(machines, partition)
    writing = asyncio.ensure_future(writer.write())
    await until(lambda: len(writer.written) >= SETTLED_RECORDS)
    ended_ms = writer.now_ms
    node = machines.nodes[leader]
    node.keep_down()
    end(node)
    await until(lambda: writer.written[-1][0] > ended_ms + AFTERWARDS_MS)
    assert node.broker is None, "it has ended long ago"
    writer.is_over = True
    await writing
    return writer.longest_ms(since_ms=ended_ms)


async def create_topic(machines: Machines) -> None:
    async with client(machines) as cluster:
        topic = NewTopic(name=ORDERS, partitions=PARTITIONS, replicas=3)
        first_refusal((await Admin(cluster).create_topics([topic])).values())
    for node in machines.nodes.values():
        broker = node.broker
        assert broker is not None
        await until(lambda broker=broker: ORDERS in broker.local.image.topics_by_name)  # type: ignore[misc]


def image_of(machines: Machines) -> Image:
    """Of a node that runs."""
    [node, *_] = [node for node in machines.nodes.values() if node.broker is not None]
    assert node.broker is not None
    return node.broker.local.image


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)


def run(scenario: Callable[[Machines], Awaitable[None]]) -> None:
    async def work(machines: Machines) -> None:
        await scenario(machines)

    Machines().run(work)


def usual_wait_ms(*, active: bool, end: Callable[[SimNode], None]) -> float:
    """The median of three. A client that is led to the new leader may be there before that one
    knows, a millisecond later: then it backs off.
    """
    waits_ms = []

    async def scenario(machines: Machines) -> None:
        waits_ms.append(await longest_wait_ms(machines, active=active, end=end))

    for seed in (1, 2, 3):
        Machines(seed).run(scenario)
    return median(waits_ms)


@pytest.mark.parametrize("active", [True, False], ids=["controller", "another"])
def test_clean_stop_of_a_leader_makes_producers_wait_for_no_timer(active: bool) -> None:
    assert usual_wait_ms(active=active, end=SimNode.stop) < STOP_MS_MAX


@pytest.mark.parametrize("active", [True, False], ids=["controller", "another"])
def test_killed_leader_is_replaced_while_its_producers_back_off(active: bool) -> None:
    waited_ms = usual_wait_ms(active=active, end=lambda node: node.crash(Crash.KILL))
    assert waited_ms < KILL_MS_MAX


def test_broker_that_is_the_only_voter_hands_over_what_it_leads_before_it_stops() -> None:
    async def scenario(machines: Machines) -> None:
        await start_nodes(machines, controller_roles="broker,controller", min_insync_replicas="2")
        await create_topic(machines)
        own = int(CONTROLLER.removeprefix("node-"))
        leaders = [one.leader for one in image_of(machines).topics_by_name[ORDERS].partitions]
        assert own in leaders
        node = machines.nodes[CONTROLLER]
        node.keep_down()
        node.stop()
        await until(lambda: node.broker is None)
        for name in BROKERS:
            broker = machines.nodes[name].broker
            assert broker is not None
            for one in broker.local.image.topics_by_name[ORDERS].partitions:
                assert one.leader not in (own, None)
                assert own not in one.isr
        # Nobody could decide now, and nobody has to; a producer id would come from the controller.
        rules = ProducerRules(batches=BatchRules(idempotent=False))
        async with client(machines) as cluster, Producer(cluster, rules=rules) as producer:
            for partition in range(PARTITIONS):
                await (await producer.send(ORDERS, b"value", partition=partition))
        node.let_start()
        async with asyncio.timeout(WAIT_S):
            await node.up.wait()
        await until(
            lambda: all(
                own in one.isr for one in image_of(machines).topics_by_name[ORDERS].partitions
            )
        )

    run(scenario)
