"""Listeners have bounds of their own, and clients cannot take the places of other brokers."""

import asyncio

import pytest

from penstock.model.settings.broker import BrokerSettings, parse_broker
from penstock.wire.messages.metadata import MetadataRequest
from penstock.world.ports import World
from rig.raw_serving import RawClient, Serving, run, run_in_virtual_time, serving, until

TWO = ("CLIENTS", "BROKERS")


def settings_of(**own: str) -> BrokerSettings:
    values = {name.replace("_", "."): value for name, value in own.items()}
    return parse_broker(
        {
            "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            **values,
        }
    )


async def served(client: RawClient, number: int = 1) -> RawClient:
    await client.ask(MetadataRequest(), number)
    assert (await client.reply())[0] == number
    return client


async def come(server: Serving, listener: str, count: int) -> list[RawClient]:
    return [await served(await server.connect(listener)) for _ in range(count)]


def test_brokers_come_in_although_clients_have_taken_all_places() -> None:
    async def scenario(world: World) -> None:
        settings = settings_of(max_connections="3")
        async with serving(
            settings=settings, world=world, listeners=TWO, brokers="BROKERS"
        ) as server:
            first, second, third = await come(server, "CLIENTS", 3)
            assert await (await server.connect("CLIENTS")).is_closed()
            await asyncio.sleep(1)
            await served(first, 2)
            [broker] = await come(server, "BROKERS", 1)
            assert await second.is_closed()  # idle for longest
            await served(first, 3)
            await served(third, 3)
            server.server.check()
            # Clients have lost that place, and each broker takes another.
            assert await (await server.connect("CLIENTS")).is_closed()
            others = await come(server, "BROKERS", 2)
            assert await first.is_closed()
            assert await third.is_closed()
            for one in (broker, *others):
                await served(one, 4)
            server.server.check()
            assert len(server.server.connections) == 3

    run_in_virtual_time(scenario)


def test_each_of_several_brokers_that_come_together_takes_one_place() -> None:
    async def scenario() -> None:
        settings = settings_of(max_connections="6")
        async with serving(settings=settings, listeners=TWO, brokers="BROKERS") as server:
            clients = await come(server, "CLIENTS", 6)
            brokers = await asyncio.gather(*(server.connect("BROKERS") for _ in range(4)))
            for broker in brokers:
                await served(broker)
            closed = await asyncio.gather(*(one.is_closed() for one in clients[:4]))
            assert closed == [True] * 4
            for client in clients[4:]:
                await served(client, 2)

    run(scenario())


def test_brokers_have_no_more_places_than_the_broker_has() -> None:
    async def scenario() -> None:
        settings = settings_of(max_connections="3")
        async with serving(settings=settings, listeners=TWO, brokers="BROKERS") as server:
            brokers = await come(server, "BROKERS", 3)
            assert await (await server.connect("BROKERS")).is_closed()
            brokers[0].stream.close()
            await until(lambda: len(server.server.connections) < 3)
            await come(server, "BROKERS", 1)

    run(scenario())


def test_the_only_listener_is_that_of_clients_too() -> None:
    async def scenario() -> None:
        settings = BrokerSettings(max_connections=2)
        async with serving(settings=settings, listeners=["BROKERS"], brokers="BROKERS") as server:
            clients = await come(server, "BROKERS", 2)
            assert await (await server.connect()).is_closed()
            for client in clients:
                await served(client, 2)

    run(scenario())


def test_a_listener_has_a_bound_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        settings = settings_of(listener_name_clients_max_connections="2", max_connections="5")
        async with serving(settings=settings, listeners=TWO, brokers="BROKERS") as server:
            clients = await come(server, "CLIENTS", 2)
            assert await (await server.connect("CLIENTS")).is_closed()
            await come(server, "BROKERS", 3)
            for client in clients:
                await served(client, 2)

    run(scenario())
    told = [one for one in caplog.messages if "listener.name.clients.max.connections=2" in one]
    assert len(told) == 1
