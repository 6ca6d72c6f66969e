"""Connections are bounded in number, in idle time, in memory, and in the time they take to stop."""

import asyncio
import struct
import time

import pytest

from penstock.broker.network.budget import Budget
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model import limit
from penstock.model.settings.broker import BrokerSettings
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from penstock.world.ports import World
from rig.raw_serving import Answer, Serving, request, run, run_in_virtual_time, serving, until


def large_request(size: int, correlation_id: int) -> bytes:
    topics = [MetadataRequestTopic(name="t" * 200) for _ in range(size // 200)]
    parts = request(MetadataRequest(topics=topics), correlation_id)
    return b"".join(map(bytes, parts))


@pytest.mark.parametrize(
    "settings",
    [BrokerSettings(max_connections=3), BrokerSettings(max_connections_per_ip=3)],
    ids=["in all", "per address"],
)
def test_one_connection_too_many_is_closed_at_once(settings: BrokerSettings) -> None:
    async def scenario() -> None:
        async with serving(settings=settings) as served:
            clients = [await served.connect() for _ in range(3)]
            for client in clients:
                await client.ask(MetadataRequest(), 1)
                await client.reply()
            assert await (await served.connect()).is_closed()
            clients[0].stream.close()
            await until(lambda: len(served.server.connections) < 3)
            another = await served.connect()
            await another.ask(MetadataRequest(), 2)
            assert (await another.reply())[0] == 2

    run(scenario())


def test_idle_connection_is_closed() -> None:
    settings = BrokerSettings(connections_max_idle_ms=60_000)

    async def scenario(world: World) -> None:
        async with serving(settings=settings, world=world) as served:
            client = await served.connect()
            await client.ask(MetadataRequest(), 1)
            await client.reply()
            await asyncio.sleep(50)
            await client.ask(MetadataRequest(), 2)
            assert (await client.reply())[0] == 2
            replied_ms = world.clock.monotonic_ms()
            assert await client.is_closed()
            assert 60_000 <= world.clock.monotonic_ms() - replied_ms < 76_000
            assert not served.server.connections

    run_in_virtual_time(scenario)


def test_header_bytes_that_trickle_in_do_not_count_as_activity() -> None:
    settings = BrokerSettings(connections_max_idle_ms=60_000)

    async def scenario(world: World) -> None:
        async with serving(settings=settings, world=world) as served:
            client = await served.connect()

            async def trickle() -> None:
                for byte in struct.pack(">i", 1000) + bytes(1000):
                    await client.send(bytes([byte]))
                    await asyncio.sleep(5)

            trickling = asyncio.create_task(trickle())
            assert await client.is_closed()
            trickling.cancel()

    run_in_virtual_time(scenario)


def test_connection_that_waits_for_us_is_not_idle() -> None:
    gate = asyncio.Event()

    async def later() -> MetadataResponse:
        await gate.wait()
        return MetadataResponse()

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        return later()

    settings = BrokerSettings(connections_max_idle_ms=60_000)

    async def scenario(world: World) -> None:
        async with serving(handle=handle, settings=settings, world=world) as served:
            client = await served.connect()
            await client.ask(MetadataRequest(), 1)
            asyncio.get_running_loop().call_later(600, gate.set)
            assert (await client.reply())[0] == 1

    run_in_virtual_time(scenario)


class Slow:
    """A handler that answers one request each `every_s` seconds."""

    def __init__(self, *, every_s: float) -> None:
        self.waiting = 0
        self._every_s = every_s

    def __call__(
        self, services: Services, message: MetadataRequest, context: RequestContext
    ) -> Answer:
        return self._later(self._every_s * (context.header.correlation_id + 1))

    async def _later(self, wait_s: float) -> MetadataResponse:
        self.waiting += 1
        try:
            await asyncio.sleep(wait_s)
        finally:
            self.waiting -= 1
        return MetadataResponse()


def test_connection_that_is_full_and_left_by_its_peer_is_closed() -> None:
    slow = Slow(every_s=1_000_000)
    settings = BrokerSettings(connections_max_idle_ms=60_000)

    async def scenario(world: World) -> None:
        async with serving(handle=slow, settings=settings, world=world) as served:
            client = await served.connect()
            for number in range(limit.REQUESTS_IN_FLIGHT_MAX):
                await client.ask(MetadataRequest(), number)
            await until(lambda: slow.waiting == limit.REQUESTS_IN_FLIGHT_MAX)
            client.stream.close()
            await asyncio.sleep(76)
            assert not served.server.connections
            assert slow.waiting == 0

    run_in_virtual_time(scenario)


def test_connection_that_is_full_and_answered_slowly_is_kept() -> None:
    slow = Slow(every_s=50)
    settings = BrokerSettings(connections_max_idle_ms=60_000)
    count = limit.REQUESTS_IN_FLIGHT_MAX + 10

    async def scenario(world: World) -> None:
        async with serving(handle=slow, settings=settings, world=world) as served:
            client = await served.connect()
            for number in range(count):
                await client.ask(MetadataRequest(), number)
            for number in range(count):
                assert (await client.reply())[0] == number

    run_in_virtual_time(scenario)


def test_client_that_takes_no_replies_is_closed_in_the_end() -> None:
    async def later() -> MetadataResponse:
        return MetadataResponse(cluster_id="x" * 30_000)

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        return later()

    async def scenario() -> None:
        settings = BrokerSettings(connections_max_idle_ms=100)
        async with serving(handle=handle, settings=settings) as served:
            client = await served.connect()
            flood = [part for n in range(1000) for part in request(MetadataRequest(), n)]
            sending = asyncio.create_task(client.send(*flood))
            await until(lambda: bool(served.server.connections))
            await until(lambda: not served.server.connections)
            sending.cancel()

    run(scenario())


def test_replies_that_nobody_takes_are_bounded_over_all_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limit, "UNSENT_BYTES_HELD_MAX", 50_000_000)
    topics = [MetadataResponseTopic(name="t" * 30_000)] * 700  # many times what a socket takes

    async def later() -> MetadataResponse:
        return MetadataResponse(topics=topics)

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        if message.topics:
            return MetadataResponse()
        at_once = context.header.correlation_id % 2
        return MetadataResponse(topics=topics) if at_once else later()

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            idle = await served.connect()
            await idle.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 1)
            await idle.reply()
            for number in range(6):
                client = await served.connect()
                await client.ask(MetadataRequest(), number)
            await until(lambda: len(served.server.connections) == 3)
            held = sum(one.unsent_bytes for one in served.server.connections)
            assert 40_000_000 < held < 50_000_000
            await idle.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 2)
            assert (await idle.reply())[0] == 2

    run(scenario())
    assert sum("bytes of replies not taken" in message for message in caplog.messages) == 4


def test_large_requests_that_wait_for_their_answers_are_not_piled_up() -> None:
    gate = asyncio.Event()
    taken: list[int] = []

    async def later() -> MetadataResponse:
        await gate.wait()
        return MetadataResponse()

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        taken.append(context.header.correlation_id)
        return later()

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            flood = b"".join(large_request(3_000_000, number) for number in range(10))
            sending = asyncio.create_task(client.send(flood))
            await until(lambda: len(taken) >= 3)
            for _ in range(100):
                await asyncio.sleep(0)
            assert taken == [0, 1, 2]
            gate.set()
            for number in range(10):
                assert (await client.reply())[0] == number
            await sending

    run(scenario())


def test_large_requests_share_a_budget_and_all_get_through() -> None:
    size = 500_000

    async def ask_slowly(served: Serving, number: int) -> None:
        client = await served.connect()
        whole = large_request(size, number)
        for start in range(0, len(whole), 50_000):
            await client.send(whole[start : start + 50_000])
            await asyncio.sleep(0)
        assert (await client.reply())[0] == number

    async def scenario() -> None:
        settings = BrokerSettings(queued_max_request_bytes=1_000_000)
        async with serving(settings=settings) as served:
            await asyncio.gather(*(ask_slowly(served, number) for number in range(12)))
            budget = served.server.budget
            assert budget.held_bytes <= 500_000  # half: what idle connections may keep
            for client in served.clients:
                client.stream.close()
            await until(lambda: not served.server.connections)
            assert budget.held_bytes == 0

    run(scenario())


def test_request_that_went_beyond_the_budget_leaves_that_right_to_the_next() -> None:
    size = 800_000

    async def scenario() -> None:
        settings = BrokerSettings(queued_max_request_bytes=1_000_000)
        async with serving(settings=settings) as served:
            budget = served.server.budget
            clients = [await served.connect() for _ in range(4)]
            given_up, idle, *waiting = clients
            await given_up.send(large_request(size, 1)[:-100])
            await until(lambda: budget.held_bytes > 700_000)
            large = large_request(400_000, 2)
            await idle.send(large[:-100])
            await until(lambda: budget.held_bytes > budget.bytes_max)
            given_up.stream.close()
            await until(lambda: budget.held_bytes < 400_000)
            await idle.send(large[-100:])
            assert (await idle.reply())[0] == 2
            # Two that are half way, and too large for the budget together.
            whole = large_request(size, 3)
            for client in waiting:
                await client.send(whole[: size // 4])
            await until(lambda: budget.held_bytes > 600_000)
            sending = [asyncio.create_task(one.send(whole[size // 4 :])) for one in waiting]
            for client in waiting:
                assert (await asyncio.wait_for(client.reply(), 60))[0] == 3
            await asyncio.gather(*sending)

    run(scenario())


def test_large_requests_that_stall_do_not_stop_those_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = BrokerSettings(queued_max_request_bytes=1_000_000)

    async def scenario(world: World) -> None:
        async with serving(settings=settings, world=world) as served:
            small, large, other, idle = [await served.connect() for _ in range(4)]
            await idle.send(large_request(100_000, 1))
            assert (await idle.reply())[0] == 1
            await small.send(large_request(500_000, 2)[:-100])
            await asyncio.sleep(60)
            await large.send(large_request(900_000, 3)[:-100])  # the one that may go beyond
            await asyncio.sleep(300)
            assert len(served.server.connections) == 4  # nobody needs the memory
            asked_ms = world.clock.monotonic_ms()
            await other.send(large_request(300_000, 4))
            assert (await other.reply())[0] == 4
            assert world.clock.monotonic_ms() - asked_ms < 5_000
            assert await large.is_closed()
            assert len(served.server.connections) == 3
            # What nobody has to give way for goes on where it was.
            await small.send(large_request(500_000, 2)[-100:])
            assert (await small.reply())[0] == 2

    run_in_virtual_time(scenario)
    assert sum("has stalled" in message for message in caplog.messages) == 1


def test_large_requests_that_come_on_are_not_closed_while_others_wait() -> None:
    settings = BrokerSettings(queued_max_request_bytes=1_000_000)

    async def scenario(world: World) -> None:
        async def ask_slowly(number: int) -> None:
            client = await served.connect()
            whole = large_request(900_000, number)
            for start in range(0, len(whole), 50_000):
                await client.send(whole[start : start + 50_000])
                await asyncio.sleep(1)
            assert (await client.reply())[0] == number

        # Each of them takes most of the budget, so that the last waits for some minutes.
        async with serving(settings=settings, world=world) as served:
            await asyncio.wait_for(asyncio.gather(*map(ask_slowly, range(12))), 3600)

    run_in_virtual_time(scenario)


def test_budget_lets_one_holder_at_a_time_go_beyond() -> None:
    async def scenario() -> None:
        budget = Budget(100)
        await budget.take("first", 80)
        await budget.take("second", 80)  # beyond: else both might wait for each other for ever
        third = asyncio.create_task(budget.take("third", 80))
        await budget.take("second", 50)
        await asyncio.sleep(0)
        assert budget.held_bytes == 210
        assert not third.done()
        budget.give("second", 130, all_given=True)
        await third
        assert budget.held_bytes == 160
        budget.give("first", 80, all_given=True)
        budget.give("third", 80, all_given=True)
        assert budget.held_bytes == 0

    run(scenario())


def test_cancelled_wait_for_the_budget_holds_nothing() -> None:
    async def scenario() -> None:
        budget = Budget(100)
        await budget.take("first", 100)
        await budget.take("second", 50)
        waiting = asyncio.create_task(budget.take("third", 50))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        budget.give("second", 50, all_given=True)
        assert budget.held_bytes == 100

    run(scenario())


def test_room_made_while_a_waiter_is_being_cancelled_goes_to_the_next() -> None:
    async def scenario() -> None:
        budget = Budget(100)
        await budget.take("first", 100)
        await budget.take("second", 50)
        cancelled = asyncio.create_task(budget.take("third", 50))
        next_one = asyncio.create_task(budget.take("fourth", 50))
        await asyncio.sleep(0)
        cancelled.cancel()
        budget.give("second", 50, all_given=True)  # before the third has noticed
        await next_one
        assert budget.held_bytes == 150

    run(scenario())


def test_waiter_that_gives_up_makes_way_for_a_smaller_one() -> None:
    async def scenario() -> None:
        budget = Budget(100)
        await budget.take("first", 90)
        await budget.take("second", 50)
        budget.give("second", 50, all_given=False)  # still the one that may go beyond
        large = asyncio.create_task(budget.take("third", 50))
        small = asyncio.create_task(budget.take("fourth", 5))
        await asyncio.sleep(0)
        large.cancel()
        await asyncio.wait_for(small, 60)
        assert budget.held_bytes == 95

    run(scenario())


def test_stopping_lets_requests_under_way_finish() -> None:
    gate = asyncio.Event()

    async def later() -> MetadataResponse:
        await gate.wait()
        return MetadataResponse(cluster_id="finished")

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        return later()

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            busy, idle = await served.connect(), await served.connect()
            await busy.ask(MetadataRequest(), 1)
            await until(lambda: any(c.in_flight for c in served.server.connections))
            served.server.take_no_more()
            draining = asyncio.create_task(served.server.drain(wait_ms=10_000))
            assert await idle.is_closed()
            gate.set()
            assert (await busy.reply())[1].cluster_id == "finished"
            assert await busy.is_closed()
            await draining

    run(scenario())


def test_stopping_does_not_wait_for_ever() -> None:
    async def never() -> MetadataResponse:
        await asyncio.Event().wait()
        raise AssertionError

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        return never()

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            await client.ask(MetadataRequest(), 1)
            await until(lambda: any(c.in_flight for c in served.server.connections))
            served.server.take_no_more()
            await served.server.drain(wait_ms=20)
            assert await client.is_closed()

    run(scenario())


def test_requests_that_cost_much_and_come_together_let_others_have_their_turn() -> None:
    turns = 0
    turns_at: list[int] = []

    def work(services: Services, asked: MetadataRequest, context: RequestContext) -> Answer:
        turns_at.append(turns)
        done_at = time.monotonic() + 2 * limit.TURN_MS_MAX / 1000
        while time.monotonic() < done_at:
            pass
        return MetadataResponse()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with serving(handle=work) as served:
            client = await served.connect()
            beside = asyncio.create_task(others())
            parts = [part for number in range(5) for part in request(MetadataRequest(), number)]
            await client.send(*parts)
            assert [(await client.reply())[0] for _ in range(5)] == list(range(5))
            beside.cancel()

    run(scenario())
    assert len(set(turns_at)) == 5
