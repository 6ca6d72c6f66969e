"""Two of three nodes lose power, and with it what they have not synced. The third has all records;
it is killed at the same time. Whoever comes back first, nothing acked is lost.
"""

import asyncio
from itertools import permutations

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.consume.offsets import ListedOffset, When
from penstock.client.network.cluster import Cluster
from penstock.client.produce.producer import Producer
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.sim.cluster.layout import configs, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.host import Crash
from rig.machines import Machines, address

WAIT_S = 60
ORDERS = "orders"
PARTITIONS = 3
RECORDS = 20
NODES = ("node-1", "node-2", "node-3")
GAPS_S = (0.0, 1.0, 12.0)  # the last is longer than a session


def client(machines: Machines) -> Cluster:
    world = machines.world("client")
    return Cluster(world.network, world.clock, [address(name) for name in NODES])


async def start(machines: Machines) -> None:
    laid_out = configs(3, {"min.insync.replicas": "2"})
    format_nodes(machines, laid_out, stream(machines.seed, "formatting"))
    for name, config in laid_out.items():
        machines.start_node(name, config)
    for node in machines.nodes.values():
        await node.up.wait()


async def write(machines: Machines) -> dict[TopicPartition, int]:
    """The offset behind the last acked record of each partition."""
    async with client(machines) as cluster, Producer(cluster) as producer:
        topic = NewTopic(name=ORDERS, partitions=PARTITIONS, replicas=3)
        first_refusal((await Admin(cluster).create_topics([topic])).values())
        ends = {}
        for _ in range(RECORDS):
            for partition in range(PARTITIONS):
                sent = await producer.send(ORDERS, b"value", partition=partition)
                offset = (await sent).offset
                assert offset is not None
                ends[TopicPartition(ORDERS, partition)] = offset + 1
        return ends


async def kept(
    machines: Machines, ends: dict[TopicPartition, int]
) -> dict[TopicPartition, Offset | None]:
    async with client(machines) as cluster:
        found = await Admin(cluster).list_offsets(dict.fromkeys(ends, When.LATEST))
        offsets = {}
        for partition, one in found.items():
            assert isinstance(one, ListedOffset), one
            offsets[partition] = one.offset
        return offsets


@pytest.mark.parametrize("gap_s", GAPS_S)
@pytest.mark.parametrize("killed", NODES)
@pytest.mark.parametrize("order", list(permutations(NODES)), ids="-".join)
def test_what_the_one_has_that_was_only_killed_is_kept(
    order: tuple[str, ...], killed: str, gap_s: float
) -> None:
    async def scenario(machines: Machines) -> None:
        await start(machines)
        ends = await write(machines)
        for name, node in machines.nodes.items():
            node.keep_down()
            node.crash(Crash.KILL if name == killed else Crash.POWER_LOSS)
        await asyncio.sleep(0)
        for name in order:
            machines.nodes[name].let_start()
            await asyncio.sleep(gap_s)
        for node in machines.nodes.values():
            async with asyncio.timeout(WAIT_S):
                await node.up.wait()
        assert await kept(machines, ends) == ends

    Machines().run(scenario)
