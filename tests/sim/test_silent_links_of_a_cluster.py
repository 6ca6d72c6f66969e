"""A node whose connections to the active controller fall silent finds its way back to it."""

import asyncio

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import address, configs, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.host_faults import require_healthy
from rig.machines import Machines

WAIT_S = 60


async def start_cluster(machines: Machines) -> str:
    """The machine of the active controller, once all nodes are up."""
    laid_out = configs(3, {})
    format_nodes(machines, laid_out, stream(1, "formatting"))
    for host, config in laid_out.items():
        machines.start_node(host, config)
    for node in machines.nodes.values():
        async with asyncio.timeout(WAIT_S):
            await node.up.wait()
    leader = Inspection(machines.nodes).leader()
    assert leader is not None
    return leader


async def require_unfenced(machines: Machines, host: str, *, by: str) -> None:
    node_id = NodeId(int(host.removeprefix("node-")))

    async def what_lacks() -> str | None:
        parts = machines.nodes[by].parts
        assert parts is not None
        return f"{host} is fenced" if parts.local.image.brokers[node_id].fenced else None

    await require_healthy(what_lacks, within_ms=WAIT_S * 1000)


async def create(machines: Machines, name: str, *, through: str) -> None:
    """Tried again and again."""
    async with machines.client("client", [address(through)]) as cluster:
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    new = NewTopic(name=name, partitions=1, replicas=1)
                    first_refusal((await Admin(cluster).create_topics([new])).values())
                except ClientError:
                    await asyncio.sleep(0.1)
                else:
                    return


def test_requests_are_forwarded_again_after_their_connection_fell_silent() -> None:
    async def scenario(machines: Machines) -> None:
        leader = await start_cluster(machines)
        other = next(name for name in machines.nodes if name != leader)
        await create(machines, "first", through=other)
        for link in machines.wire.links_between(leader, other):
            link.silence()
        await create(machines, "second", through=other)
        await require_unfenced(machines, other, by=leader)

    Machines().run(scenario)
