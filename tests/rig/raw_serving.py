"""A server on a free port with handlers of the test's own, and a client that speaks raw frames."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

from penstock.broker.api import api_versions
from penstock.broker.network.server import Server, bind_listeners, socket_options
from penstock.broker.request.api_table import AnyApi, Api, versions_served
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.services import Services
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.listener import ListenAddress
from penstock.sim.clock import SimClock
from penstock.sim.file_system import FileSystem
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace
from penstock.sim.wire import Wire
from penstock.sim.world import sim_world
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.codec import Part
from penstock.wire.definition import Message
from penstock.wire.framing import FrameReader
from penstock.wire.header import decode_correlation_id, decode_response, encode_request
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Stream, World
from penstock.world.real import real_world
from penstock.world.tasks import TaskGroup
from rig.sole_controller import sole_controller

VERSION = 9
HOST = "127.0.0.1"
Answer = MetadataResponse | Awaitable[MetadataResponse] | PendingReply | None
Handle = Callable[[Services, MetadataRequest, RequestContext], Answer]


class RawClient:
    """Sends what the test says, well-formed or not."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._frames = FrameReader(frame_bytes_max=2**30)

    async def send(self, *parts: Part) -> None:
        await self.stream.send([cast(bytes, part) for part in parts])

    async def ask(self, message: Message, correlation_id: int, *, version: int = VERSION) -> None:
        await self.send(*request(message, correlation_id, version=version))

    async def frame(self) -> memoryview | None:
        """The next reply, or None when the server has closed."""
        while (frame := self._frames.next_frame()) is None:
            try:
                count = await self.stream.receive_into(self._frames.receive_view())
            except NetworkError:  # reset instead of closed: it had unread bytes of ours
                return None
            if count == 0:
                return None
            self._frames.received(count)
        return frame

    async def reply(self) -> tuple[int, MetadataResponse]:
        frame = await self.frame()
        assert frame is not None, "the server closed"
        response = decode_response(MetadataResponse, VERSION, frame)
        return decode_correlation_id(frame), response

    async def is_closed(self) -> bool:
        """Waits for the server's next word; True when it hangs up instead."""
        return await self.frame() is None


def request(message: Message, correlation_id: int, *, version: int = VERSION) -> list[Part]:
    return encode_request(message, version=version, correlation_id=correlation_id, client_id="test")


def answered_at_once(
    services: Services, message: MetadataRequest, context: RequestContext
) -> Answer:
    return MetadataResponse(cluster_id="here")


def refused(message: MetadataRequest, code: ErrorCode, text: str | None) -> MetadataResponse:
    return MetadataResponse(cluster_id=f"{code.name}: {text}")


def metadata_api(handle: Handle) -> AnyApi:
    return Api(
        key=ApiKey.METADATA,
        versions=VersionRange(0, 12),
        request=MetadataRequest,
        handle=handle,
        refuse=refused,
    )


class Serving:
    """A server under test."""

    def __init__(self, server: Server, address: Address, network: Any) -> None:
        self.server = server
        self.address = address
        self._network = network
        self.clients: list[RawClient] = []

    async def connect(self, listener: str | None = None) -> RawClient:
        """To the first listener, or the one of this name."""
        address = self.address
        if listener is not None:
            address = self.server.listeners[listener].address
        client = RawClient(await self._network.connect(address))
        self.clients.append(client)
        return client


@asynccontextmanager
async def serving(
    *,
    handle: Handle = answered_at_once,
    settings: BrokerSettings | None = None,
    world: World | None = None,
    listeners: Sequence[str] = ("PLAINTEXT",),
    brokers: str | None = None,
) -> AsyncIterator[Serving]:
    """`brokers` is the listener by which other brokers come."""
    world = world or real_world(inline=True)
    apis: Iterable[AnyApi] = (metadata_api(handle), api_versions.API)
    settings = settings or BrokerSettings()
    nothing = cast(Any, None)  # handlers of these tests reach for none of it
    services = Services(
        node_id=NodeId(1), cluster_id="test", settings=settings, world=world, image=Image(),
        endpoints=(), controller=nothing, partitions=nothing, groups=nothing, transactions=nothing,
        producer_ids=nothing, fetch_sessions=nothing, served=versions_served(apis),
        local=sole_controller(world, node_id=NodeId(1), settings=settings),
        directory_moves=cast(Any, None),
    )  # fmt: skip
    async with TaskGroup() as group:
        addresses = [ListenAddress(listener=name, host=HOST, port=0) for name in listeners]
        bound = await bind_listeners(world.network, addresses, socket_options(settings))
        server = Server(services, apis, group, bound, brokers=brokers)
        server.open()
        server.serve()
        found = Serving(server, server.listeners[listeners[0]].address, world.network)
        try:
            yield found
        finally:
            for client in found.clients:
                client.stream.close()
            for listener in server.listeners.values():
                listener.close()
            group.cancel()


async def until(condition: Callable[[], bool]) -> None:
    """Looks now and then until it holds; the scenario's time limit ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - what the server does inside signals nothing
        await asyncio.sleep(0.001)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario, which must end."""
    asyncio.run(asyncio.wait_for(scenario, 120))


def run_in_virtual_time(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """For a scenario about times: how long the machine is busy elsewhere does not count."""
    loop = SimLoop()  # type: ignore[abstract]
    trace = Trace(loop)
    world = sim_world(
        loop=loop,
        clock=SimClock(loop),
        chance=Random(1),
        file_system=FileSystem(Random(1)),
        wire=Wire(loop, Random(1), trace),
        kill_switch=KillSwitch(),
        trace=trace,
        host=HOST,
    )
    try:
        loop.run_until_complete(scenario(world))
    finally:
        loop.close()
