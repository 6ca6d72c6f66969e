"""Several real nodes on one loop, each on a machine of its own, and clients on theirs.

Until nodes form a quorum each of these is a cluster of its own, which is what shows here: nothing
of one reaches another.
"""

import asyncio

import pytest

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.network.errors import Refused
from penstock.client.produce.producer import Producer
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.sim.host import Crash
from penstock.sim.sim_node import SimNode
from penstock.world.ports import Address
from rig.machines import Machines

NAMES = ("node-1", "node-2", "node-3")
ORDERS = TopicPartition("orders", 0)


def start(machines: Machines, name: str) -> SimNode:
    return machines.start_node(
        name,
        {
            "node.id": name.removeprefix("node-"),
            "listeners": f"PLAINTEXT://{name}:9092,INSIDE://{name}:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        },
    )


async def produce(
    machines: Machines, name: str, count: int, *, port: int = 9092, source: str = "client"
) -> None:
    """Acked records to one node; the topic is made when it is not there."""
    async with machines.client(source, [Address(host=name, port=port)]) as cluster:
        new = NewTopic(name=ORDERS.topic, partitions=1)
        told = (await Admin(cluster).create_topics([new]))[ORDERS.topic]
        assert not isinstance(told, Refused) or told.code == ErrorCode.TOPIC_ALREADY_EXISTS
        async with Producer(cluster) as producer:
            for number in range(count):
                delivery = await producer.send(ORDERS.topic, b"%d" % number)
                await delivery


def end_offset(node: SimNode) -> int:
    return node.logs[ORDERS].end_offset


async def all_up(machines: Machines) -> None:
    for node in machines.nodes.values():
        async with asyncio.timeout(30):
            await node.up.wait()


def test_nodes_have_disks_and_listeners_of_their_own() -> None:
    async def scenario(machines: Machines) -> None:
        nodes = [start(machines, name) for name in NAMES]
        await all_up(machines)
        for count, name in enumerate(NAMES, start=1):
            await produce(machines, name, count)
            await produce(machines, name, count, port=9093, source="other client")
        assert [end_offset(node) for node in nodes] == [2, 4, 6]
        machines.check()

    Machines().run(scenario)


def test_a_killed_node_comes_back_with_its_records_while_the_others_serve() -> None:
    async def scenario(machines: Machines) -> None:
        nodes = [start(machines, name) for name in NAMES]
        await all_up(machines)
        for name in NAMES:
            await produce(machines, name, 3)
        nodes[0].keep_down()
        nodes[0].crash(Crash.KILL)
        await asyncio.sleep(1)
        assert not nodes[0].up.is_set()
        await produce(machines, NAMES[1], 2)
        nodes[0].let_start()
        await all_up(machines)
        assert [end_offset(node) for node in nodes] == [3, 5, 3]
        assert [node.lives for node in nodes] == [2, 1, 1]

    Machines().run(scenario)


def test_a_paused_node_answers_when_it_goes_on_and_the_others_before() -> None:
    async def scenario(machines: Machines) -> None:
        first, second = start(machines, NAMES[0]), start(machines, NAMES[1])
        await all_up(machines)
        await produce(machines, NAMES[0], 1)
        await produce(machines, NAMES[1], 1)
        first.host.pause()
        waiting = asyncio.ensure_future(produce(machines, NAMES[0], 1))
        await produce(machines, NAMES[1], 5)
        await asyncio.sleep(1)
        assert not waiting.done()
        assert (end_offset(first), end_offset(second)) == (1, 6)
        first.host.resume()
        await waiting
        assert end_offset(first) == 2

    Machines().run(scenario)


@pytest.mark.parametrize("blocked", [("client", "node-1"), ("node-1", "client")])
def test_a_client_that_is_cut_off_gets_through_when_the_path_is_open(
    blocked: tuple[str, str],
) -> None:
    async def scenario(machines: Machines) -> None:
        node = start(machines, NAMES[0])
        await all_up(machines)
        await produce(machines, NAMES[0], 1)
        machines.wire.block([blocked[0]], [blocked[1]])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await produce(machines, NAMES[0], 1)
        await produce(machines, NAMES[0], 1, source="another client")
        machines.wire.unblock([blocked[0]], [blocked[1]])
        await produce(machines, NAMES[0], 1)
        assert end_offset(node) == 3

    Machines().run(scenario)


def test_one_seed_is_one_run_of_many_nodes() -> None:
    def trace_of(seed: int) -> str:
        async def scenario(machines: Machines) -> None:
            nodes = [start(machines, name) for name in NAMES]
            await all_up(machines)
            for name in NAMES:
                await produce(machines, name, 2)
            nodes[1].crash(Crash.POWER_LOSS)
            await asyncio.sleep(1)
            await all_up(machines)

        machines = Machines(seed)
        machines.run(scenario)
        return machines.trace.hash

    assert trace_of(1) == trace_of(1) != trace_of(2)
