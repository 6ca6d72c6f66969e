"""Connections to other nodes: whoever asks waits no longer than it wants to."""

import asyncio
from typing import Any, cast

import pytest

from penstock.broker.controller.links import Lane, Links
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId
from penstock.sim.loop import SimLoop
from penstock.wire.messages.vote import VoteRequest, VoteResponse
from penstock.world.ports import Address
from penstock.world.tasks import TaskGroup

TWO = NodeId(2)
HOUR_MS = 3_600_000


async def never_connects(*_: object, timeout_ms: int, **__: object) -> Any:
    """The other machine says nothing at all."""
    await asyncio.sleep(timeout_ms / 1000)
    raise ClientError("no connection")


def test_a_request_does_not_wait_for_a_connection_as_long_as_another_one_does() -> None:
    async def scenario() -> None:
        async with TaskGroup() as tasks:
            links = Links(
                network=cast(Any, None),
                client_id="node-1",
                address_of=lambda _: Address(host="elsewhere", port=9093),
                tasks=tasks,
                open_channel=never_connects,
            )

            async def ask(timeout_ms: int) -> None:
                await links.ask(
                    TWO, VoteRequest(), VoteResponse, lane=Lane.ELECTIONS, timeout_ms=timeout_ms
                )

            patient = asyncio.ensure_future(ask(HOUR_MS))
            await asyncio.sleep(0)
            with pytest.raises(ClientError):
                await ask(1_000)
            assert not patient.done()
            with pytest.raises(ClientError):
                await patient

    loop = SimLoop()  # type: ignore[abstract]
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
