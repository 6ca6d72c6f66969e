"""How a fetcher waits for a leader that does not reply."""

import asyncio

import pytest

from penstock.broker.controller.links import NodeDown
from penstock.broker.replication.leader_contact import LeaderContact
from penstock.model.identity import NodeId
from penstock.world.clock import RealClock


@pytest.mark.parametrize("steps", range(6))
def test_a_wait_that_is_hurried_and_cancelled_ends_as_cancelled(steps: int) -> None:
    """Else its fetcher would go on, and its node could not be stopped."""

    async def scenario() -> None:
        contact = LeaderContact(NodeId(1), RealClock())
        waiting = asyncio.create_task(contact.connection_failed(NodeDown("node 1 is down")))
        await asyncio.sleep(0.01)
        contact.hurry()
        for _ in range(steps):
            await asyncio.sleep(0)
        has_ended = waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() or has_ended

    asyncio.run(scenario())
