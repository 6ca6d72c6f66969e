"""A broker that reaches no controller refuses all who want a producer id when its time is over."""

import asyncio

from penstock.client.network.channel import open_channel
from penstock.model.error import ErrorCode
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.world.tasks import TaskGroup
from rig.machines import Machines, address
from rig.one_controller import BROKERS, CONTROLLER, start_nodes

TIMEOUT_MS = 40_000  # of the client; the broker gives up sooner


async def producer_id(machines: Machines) -> InitProducerIdResponse:
    """On a connection of its own."""
    async with TaskGroup() as tasks:
        channel = await open_channel(
            machines.world("client").network,
            address(BROKERS[0]),
            client_id="client",
            tasks=tasks,
            timeout_ms=TIMEOUT_MS,
        )
        request = InitProducerIdRequest(transactional_id=None)
        reply = await channel.ask(request, InitProducerIdResponse, timeout_ms=TIMEOUT_MS)
        channel.close()
    return reply


def test_all_who_wait_for_a_producer_id_are_refused_at_the_same_time() -> None:
    async def scenario(machines: Machines) -> None:
        await start_nodes(machines)
        machines.loop.pause(CONTROLLER)
        replies = await asyncio.gather(*(producer_id(machines) for _ in range(5)))
        assert {reply.error_code for reply in replies} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        machines.loop.resume(CONTROLLER)
        replies = await asyncio.gather(*(producer_id(machines) for _ in range(5)))
        assert {reply.error_code for reply in replies} == {ErrorCode.NONE}
        assert len({reply.producer_id for reply in replies}) == 5

    Machines().run(scenario)
