"""A node whose connections to the active controller fall silent finds its way back to it."""

import asyncio

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.channel import open_channel
from penstock.client.network.errors import ClientError
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import address, configs, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.host_faults import require_healthy
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.world.tasks import TaskGroup
from rig.machines import Machines

WAIT_S = 60
ANSWER_MS_MAX = 10_000  # of one request; requests behind it on the connection wait as long


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


async def producer_id(machines: Machines, *, through: str) -> list[int]:
    """The codes of the answers to one request after the other, on one connection, until an id is
    handed out.
    """
    codes: list[int] = []
    async with asyncio.timeout(WAIT_S), TaskGroup() as tasks:
        channel = await open_channel(
            machines.world("client").network,
            address(through),
            client_id="client",
            tasks=tasks,
            timeout_ms=ANSWER_MS_MAX,
        )
        while ErrorCode.NONE not in codes:
            request = InitProducerIdRequest(transactional_id=None)
            reply = await channel.ask(request, InitProducerIdResponse, timeout_ms=ANSWER_MS_MAX)
            codes.append(reply.error_code)
        channel.close()
    return codes


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


def test_producers_do_not_wait_for_an_id_while_its_connection_is_silent() -> None:
    async def scenario(machines: Machines) -> None:
        leader = await start_cluster(machines)
        other = next(name for name in machines.nodes if name != leader)
        await create(machines, "first", through=other)
        for link in machines.wire.links_between(leader, other):
            link.silence()
        codes = await producer_id(machines, through=other)
        assert codes[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert codes[-1] == ErrorCode.NONE

    Machines().run(scenario)


def test_a_silent_connection_is_given_up_though_whoever_asked_has_gone() -> None:
    """As clients do that wait for less than their broker, and hang up: it stops asking another."""

    async def scenario(machines: Machines) -> None:
        leader = await start_cluster(machines)
        async with TaskGroup() as tasks:
            channel = await open_channel(
                machines.world("client").network,
                address(leader),
                client_id="client",
                tasks=tasks,
                timeout_ms=ANSWER_MS_MAX,
            )
            for link in machines.wire.links_between(leader, "client"):
                link.silence()
            for _ in range(3):
                request = InitProducerIdRequest(transactional_id=None)
                asking = asyncio.ensure_future(
                    channel.ask(request, InitProducerIdResponse, timeout_ms=ANSWER_MS_MAX)
                )
                await asyncio.sleep(0.3)
                asking.cancel()
            assert channel.is_open
            await asyncio.sleep(ANSWER_MS_MAX / 1000)
            assert not channel.is_open

    Machines().run(scenario)
