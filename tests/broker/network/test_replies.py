"""Replies leave in the order of their requests, many in flight, few sends."""

import asyncio
from collections.abc import Awaitable

import pytest

from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model import limit
from penstock.model.error import CloseConnection, ErrorCode, RequestError
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from rig.raw_serving import Answer, request, run, serving, until


class Gates:
    """A handler whose answers the test lets go one by one, by the topic that was asked for."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        self.cancelled: list[str] = []
        self._open: dict[str, asyncio.Event] = {}

    def __call__(
        self, services: Services, message: MetadataRequest, context: RequestContext
    ) -> Answer:
        assert message.topics
        name = message.topics[0].name
        assert name is not None
        self.arrived.append(name)
        if name.startswith("now"):
            return MetadataResponse(cluster_id=name)
        return self._later(name)

    def let_go(self, name: str) -> None:
        self._gate(name).set()

    async def wait_for(self, *, arrived: int = 0, cancelled: int = 0) -> None:
        await until(lambda: len(self.arrived) >= arrived and len(self.cancelled) >= cancelled)

    async def _later(self, name: str) -> MetadataResponse:
        try:
            await self._gate(name).wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return MetadataResponse(cluster_id=name)

    def _gate(self, name: str) -> asyncio.Event:
        return self._open.setdefault(name, asyncio.Event())


def about(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


def test_later_request_that_finishes_first_waits_its_turn() -> None:
    gates = Gates()

    async def scenario() -> None:
        async with serving(handle=gates) as served:
            client = await served.connect()
            for number, name in enumerate(["slow", "now-1", "quick", "now-2"]):
                await client.ask(about(name), number)
            await gates.wait_for(arrived=4)
            gates.let_go("quick")
            await asyncio.sleep(0)
            gates.let_go("slow")
            replies = [await client.reply() for _ in range(4)]
            assert [(number, reply.cluster_id) for number, reply in replies] == [
                (0, "slow"), (1, "now-1"), (2, "quick"), (3, "now-2"),
            ]  # fmt: skip

    run(scenario())


def test_requests_are_handled_in_the_order_they_came() -> None:
    gates = Gates()

    async def scenario() -> None:
        async with serving(handle=gates) as served:
            client = await served.connect()
            names = [f"now-{number}" for number in range(1000)]
            parts = [part for n, name in enumerate(names) for part in request(about(name), n)]
            await client.send(*parts)
            for number, name in enumerate(names):
                correlation_id, reply = await client.reply()
                assert (correlation_id, reply.cluster_id) == (number, name)
            assert gates.arrived == names

    run(scenario())


def test_waiting_request_does_not_hold_up_other_connections() -> None:
    gates = Gates()

    async def scenario() -> None:
        async with serving(handle=gates) as served:
            waiting, other = await served.connect(), await served.connect()
            await waiting.ask(about("slow"), 1)
            await gates.wait_for(arrived=1)
            await other.ask(about("now"), 2)
            assert (await other.reply())[0] == 2

    run(scenario())


def test_too_many_in_flight_are_not_read_until_replies_leave() -> None:
    gates = Gates()
    asked = limit.REQUESTS_IN_FLIGHT_MAX + 50

    async def scenario() -> None:
        async with serving(handle=gates) as served:
            client = await served.connect()
            for number in range(asked):
                await client.ask(about(f"slow-{number}"), number)
            await gates.wait_for(arrived=limit.REQUESTS_IN_FLIGHT_MAX)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(gates.arrived) == limit.REQUESTS_IN_FLIGHT_MAX
            for number in range(asked):
                gates.let_go(f"slow-{number}")
            assert [(await client.reply())[0] for _ in range(asked)] == list(range(asked))

    run(scenario())


def test_what_waits_is_cancelled_when_the_peer_hangs_up() -> None:
    gates = Gates()

    async def scenario() -> None:
        async with serving(handle=gates) as served:
            client = await served.connect()
            for name in ("long-poll-1", "long-poll-2"):
                await client.ask(about(name), 1)
            await gates.wait_for(arrived=2)
            client.stream.close()
            await gates.wait_for(cancelled=2)
            assert gates.cancelled == ["long-poll-1", "long-poll-2"]

    run(scenario())


def test_request_that_is_owed_no_reply_gets_none() -> None:
    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        if context.header.correlation_id % 2:
            return None
        return MetadataResponse(cluster_id="even")

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            for number in range(10):
                await client.ask(about("any"), number)
            assert [(await client.reply())[0] for _ in range(5)] == [0, 2, 4, 6, 8]

    run(scenario())


@pytest.mark.parametrize("waits", [False, True])
def test_request_error_becomes_the_refusal_of_its_api(waits: bool) -> None:
    async def refuse_later() -> MetadataResponse:
        raise RequestError(ErrorCode.INVALID_REQUEST, "because")

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        if waits:
            return refuse_later()
        raise RequestError(ErrorCode.INVALID_REQUEST, "because")

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            await client.ask(about("any"), 7)
            correlation_id, reply = await client.reply()
            assert (correlation_id, reply.cluster_id) == (7, "INVALID_REQUEST: because")

    run(scenario())


@pytest.mark.parametrize("waits", [False, True])
def test_handler_can_close_the_connection_and_no_other(waits: bool) -> None:
    async def close_later() -> MetadataResponse:
        raise CloseConnection("acks=0 and an error")

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        if context.header.correlation_id == 1:
            return MetadataResponse()
        if waits:
            return close_later()
        raise CloseConnection("acks=0 and an error")

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            good, bad = await served.connect(), await served.connect()
            await bad.ask(about("any"), 2)
            assert await bad.is_closed()
            await good.ask(about("any"), 1)
            assert (await good.reply())[0] == 1

    run(scenario())


@pytest.mark.parametrize("waits", [False, True])
def test_bug_in_a_handler_ends_the_server_and_is_never_a_reply(waits: bool) -> None:
    async def fail_later() -> MetadataResponse:
        raise AssertionError("invariant 3")

    def handle(
        services: Services, message: MetadataRequest, context: RequestContext
    ) -> Awaitable[MetadataResponse]:
        if waits:
            return fail_later()
        raise AssertionError("invariant 3")

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            await client.ask(about("any"), 1)
            await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="invariant 3"):
        run(scenario())


def test_client_that_takes_no_replies_is_not_read_any_more() -> None:
    handled = 0

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        nonlocal handled
        handled += 1
        return MetadataResponse(cluster_id="x" * 30_000)

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            asked = 10_000  # 300 MB of replies
            flood = [part for n in range(asked) for part in request(about("any"), n)]
            sending = asyncio.create_task(client.send(*flood))
            before = -1
            while handled > before:  # until the server stops by itself
                before = handled
                await asyncio.sleep(0.1)
            # What is on its way lies in the kernel's buffers; the server holds about a MiB.
            assert handled < asked / 2
            for connection in served.server.connections:
                connection.check()
                assert connection.unsent_bytes < 2 * limit.UNSENT_REPLY_BYTES_MAX
            for number in range(asked):
                assert (await client.reply())[0] == number
            await sending

    run(scenario())
