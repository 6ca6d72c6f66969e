"""Replies that are filled later keep their place in the line, and cost no task."""

import asyncio

import pytest

from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.services import Services
from penstock.model import limit
from penstock.wire.header import encode_response
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from rig.raw_serving import Answer, Serving, run, serving, until


class Named:
    """A reply that the test fills."""

    def __init__(self, name: str, context: RequestContext) -> None:
        self.reply = PendingReply()
        self._name = name
        self._header = context.header

    @property
    def is_abandoned(self) -> bool:
        return self.reply.line is None

    def let_go(self, *, more_bytes: int = 0) -> None:
        response = MetadataResponse(cluster_id=self._name + "x" * more_bytes)
        header = self._header
        self.reply.fill(encode_response(header.correlation_id, response, header.api_version))


class Held:
    """A handler whose replies wait to be filled, but for those to topics called `now`."""

    def __init__(self) -> None:
        self.replies: list[Named] = []

    def __call__(
        self, services: Services, message: MetadataRequest, context: RequestContext
    ) -> Answer:
        assert message.topics
        name = message.topics[0].name
        assert name is not None
        if name.startswith("now"):
            return MetadataResponse(cluster_id=name)
        self.replies.append(Named(name, context))
        return self.replies[-1].reply

    async def wait_for(self, count: int) -> None:
        await until(lambda: len(self.replies) >= count)


def about(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


def tasks_waiting(served: Serving) -> int:
    return sum(
        len(connection._waiting)
        for connection in served.server.connections
        if connection._waiting is not None
    )


def test_a_reply_that_is_filled_first_waits_its_turn() -> None:
    held = Held()

    async def scenario() -> None:
        async with serving(handle=held) as served:
            client = await served.connect()
            for number, name in enumerate(["first", "now-1", "second", "now-2", "third"]):
                await client.ask(about(name), number)
            await held.wait_for(3)
            assert tasks_waiting(served) == 0
            first, second, third = held.replies
            second.let_go()
            first.let_go()
            replies = [await client.reply() for _ in range(4)]
            assert [reply.cluster_id for _, reply in replies] == [
                "first", "now-1", "second", "now-2",
            ]  # fmt: skip
            third.let_go()
            assert (await client.reply())[0] == 4
            for connection in served.server.connections:
                connection.check()
                assert connection.in_flight == 0
                assert connection.unsent_bytes == 0

    run(scenario())


def test_replies_larger_than_the_network_takes_at_once_arrive_whole() -> None:
    held = Held()

    async def scenario() -> None:
        async with serving(handle=held) as served:
            client = await served.connect()
            for number in range(100):
                await client.ask(about(f"large-{number}"), number)
            await held.wait_for(100)
            for reply in held.replies:
                reply.let_go(more_bytes=30_000)
            for number in range(100):
                correlation_id, answer = await client.reply()
                assert correlation_id == number
                assert answer.cluster_id is not None
                assert len(answer.cluster_id) > 30_000
            (connection,) = served.server.connections
            await until(lambda: connection.unsent_bytes == 0)
            assert connection.in_flight == 0

    run(scenario())


def test_requests_whose_replies_are_not_filled_are_bounded() -> None:
    held = Held()
    asked = limit.REQUESTS_IN_FLIGHT_MAX + 20

    async def scenario() -> None:
        async with serving(handle=held) as served:
            client = await served.connect()
            for number in range(asked):
                await client.ask(about(f"slow-{number}"), number)
            await held.wait_for(limit.REQUESTS_IN_FLIGHT_MAX)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(held.replies) == limit.REQUESTS_IN_FLIGHT_MAX
            for reply in held.replies:
                reply.let_go()
            await held.wait_for(asked)
            for reply in held.replies[limit.REQUESTS_IN_FLIGHT_MAX :]:
                reply.let_go()
            assert [(await client.reply())[0] for _ in range(asked)] == list(range(asked))

    run(scenario())


def test_replies_are_abandoned_when_the_peer_hangs_up() -> None:
    held = Held()

    async def scenario() -> None:
        async with serving(handle=held) as served:
            client = await served.connect()
            for number in range(2):
                await client.ask(about("slow"), number)
            await held.wait_for(2)
            client.stream.close()
            await until(lambda: all(reply.is_abandoned for reply in held.replies))
            for reply in held.replies:
                reply.let_go()  # harms nobody
            other = await served.connect()
            await other.ask(about("now"), 7)
            assert (await other.reply())[0] == 7

    run(scenario())


def test_a_connection_that_finishes_sends_what_is_filled_and_closes() -> None:
    held = Held()

    async def scenario() -> None:
        async with serving(handle=held) as served:
            client = await served.connect()
            await client.ask(about("last"), 1)
            await held.wait_for(1)
            (connection,) = served.server.connections
            connection.finish()
            held.replies[0].let_go()
            assert (await client.reply())[0] == 1
            assert await client.is_closed()

    run(scenario())


def test_bug_in_what_fills_a_reply_ends_the_server() -> None:
    held = Held()

    def fail() -> None:
        raise AssertionError("invariant 3")

    async def scenario() -> None:
        async with serving(handle=held) as served:
            client = await served.connect()
            await client.ask(about("slow"), 1)
            await held.wait_for(1)
            line = held.replies[0].reply.line
            assert line is not None
            line.call_soon(fail)
            await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="invariant 3"):
        run(scenario())
