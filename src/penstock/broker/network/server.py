"""The listeners of a node and the connections they accept, under the bounds that settings give.

    max.connections, max.connections.per.ip    one too many is closed at once (`connection_limits`)
    connections.max.idle.ms                    what has not moved for so long is closed
    queued.max.request.bytes                   memory for requests on their way, over all; while
                                               some wait for it, those that stall are closed

On a listener with TLS a client shakes hands first (`entrance`), and on one with SASL it then logs
in (`authentication`).

Connections are tasks of the group that the owner gives; a bug in one ends the group, and so the
node. Start reading at `bind_listeners` and `Server.open`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.broker.network.budget import Budget
from penstock.broker.network.connection import Connection
from penstock.broker.network.connection_limits import ConnectionLimits
from penstock.broker.network.conversation import converse
from penstock.broker.network.dispatch import Dispatch
from penstock.broker.network.entrance import Entrance
from penstock.broker.network.send_buffer import UnsentReplies
from penstock.broker.request.api_table import AnyApi
from penstock.broker.request.request_stats import RequestStats
from penstock.broker.request.services import NodeServices
from penstock.model import limit
from penstock.model.events import CONNECTION_REFUSED
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.listener import ListenAddress
from penstock.world.errors import HandshakeFailed, NetworkError
from penstock.world.event_log import tell
from penstock.world.ports import Address, Listener, Network, SocketOptions, Stream
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:
    from penstock.broker.network.authentication import Authentication

logger = logging.getLogger(__name__)

SWEEPS_PER_IDLE_TIME = 4  # a connection may idle for a quarter longer than the setting says
SWEEP_MS_MIN = 10
RELIEVED_EVERY_S = 1  # while a request waits for memory, one that has stalled is given up
NO_ENTRANCES: Mapping[str, Entrance] = MappingProxyType({})


async def bind_listeners(
    network: Network, addresses: Iterable[ListenAddress], options: SocketOptions
) -> dict[str, Listener]:
    """Takes every address, by listener name, or none: NetworkError for the first that is not free.

    Connections are refused until `Server.open`.
    """
    bound: dict[str, Listener] = {}
    try:
        for address in addresses:
            bound[address.listener] = await network.bind(
                Address(host=address.host, port=address.port), options
            )
    except BaseException:
        for listener in bound.values():
            listener.close()
        raise
    return bound


class Server:
    def __init__(
        self,
        services: NodeServices,
        apis: Iterable[AnyApi],
        group: TaskGroup,
        listeners: Mapping[str, Listener],
        *,
        closed: Callable[[Address], None] | None = None,
        entrances: Mapping[str, Entrance] = NO_ENTRANCES,
        authentications: "Mapping[str, Authentication] | None" = None,
        brokers: str | None = None,
    ) -> None:
        """`closed` is told the peer of each connection that has ended. `entrances` are of the
        listeners with TLS, `authentications` of those with SASL, by name. `brokers` is the listener
        by which other brokers come.
        """
        self.listeners = listeners  # by listener name
        self._closed = closed
        self._entrances = entrances
        self._streams: dict[Stream, None] = {}  # accepted, with a connection or not yet
        self._authentications = authentications or {}
        self._services = services
        self._apis = tuple(apis)
        self._group = group
        self._limits = ConnectionLimits(listeners, services.settings, brokers=brokers)
        self._empty: asyncio.Future[None] | None = None
        self._ready = asyncio.Event()  # until then who comes waits
        self._draining = False
        held_max = services.settings.queued_max_request_bytes
        self.budget = Budget(held_max if held_max > 0 else limit.REQUEST_BYTES_HELD_MAX)
        self._login_budget = Budget(limit.UNAUTHENTICATED_BYTES_HELD_MAX)
        self._unsent = UnsentReplies(limit.UNSENT_BYTES_HELD_MAX)

    @property
    def connections(self) -> Mapping[Connection, str]:
        """With their listeners, in the order they came."""
        return self._limits.connections

    def check(self) -> None:
        self._limits.check()

    def count_requests(self, stats: RequestStats) -> None:
        """Call it before `open`."""
        self._services.request_stats = stats

    def open(self) -> None:
        """Listens. A connection that comes before `serve` waits."""
        for name, listener in self.listeners.items():
            dispatch = Dispatch(
                self._services,
                self._apis,
                listener=name,
                has_sessions=name in self._authentications,
            )
            entrance = self._entrances.get(name)
            guarded = listener if entrance is None else entrance.guarded(listener)
            guarded.listen(partial(self._accept, dispatch, entrance))
        self._group.start(self._sweep(), name="idle connections")
        self._group.start(self._relieve(), name="stalled requests")

    def serve(self) -> None:
        """The node is ready: those who came early are served, and all who come from now on."""
        self._ready.set()

    def take_no_more(self) -> None:
        """Accepts no connection and reads no request from now on; those under way go on."""
        for listener in self.listeners.values():
            listener.close()
        self._draining = True
        for connection in list(self.connections):
            connection.finish()

    async def drain(self, *, wait_ms: int) -> None:
        """Lets requests under way finish for so long, then closes what is left."""
        assert self._draining, "drained before `take_no_more`"
        if self.connections:
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._empty], timeout=wait_ms / 1000)
        for connection in list(self.connections):
            connection.close()

    def hang_up(self) -> None:
        """Ends every conversation in mid-sentence: the node is wrong, and must say no more."""
        for listener in self.listeners.values():
            listener.close()
        for stream in list(self._streams):
            stream.close()

    def _accept(self, dispatch: Dispatch, entrance: Entrance | None, stream: Stream) -> None:
        self._streams[stream] = None
        conversation = self._converse(dispatch, entrance, stream)
        # Called by the loop, where an error would be nobody's; in a task it is the group's.
        self._group.start(conversation, name=f"connection {stream.peer}")

    async def _converse(
        self, dispatch: Dispatch, entrance: Entrance | None, stream: Stream
    ) -> None:
        try:
            await self._ready.wait()
            refusal = self._refusal(stream.peer.host, dispatch.listener)
            if refusal is not None:
                tell(logger, CONNECTION_REFUSED, peer=str(stream.peer), reason=refusal)
                return
            connection = Connection(
                stream,
                dispatch,
                budget=self.budget,
                unsent=self._unsent,
                clock=self._services.world.clock,
                request_bytes_max=self._services.settings.socket_request_max_bytes,
            )
            self._limits.add(connection, dispatch.listener)
            try:
                self._make_room()
                if await self._enters(connection, dispatch, entrance):
                    await converse(connection)
            finally:
                self._forget(connection)
        finally:
            stream.close()
            del self._streams[stream]

    async def _enters(
        self, connection: Connection, dispatch: Dispatch, entrance: Entrance | None
    ) -> bool:
        """Whether the peer may talk, by its certificate or its log-in. It counts as a connection
        from its first byte on.
        """
        if entrance is not None:
            try:
                connection.identity.principal = await entrance.enter(connection.stream)
            except HandshakeFailed as error:
                connection.log_closed(error.reason)
                return False
            except NetworkError:
                return False  # the peer has gone; there is nobody to tell
        authentication = self._authentications.get(dispatch.listener)
        if authentication is not None:
            identity = await authentication.log_in(connection.stream, dispatch, self._login_budget)
            if identity is None or self._draining:
                return False
            connection.identity = identity
        return True

    def _refusal(self, host: str, listener: str) -> str | None:
        if self._draining:
            return "stopping"
        return self._limits.refusal(host, listener, self._services.settings)

    def _make_room(self) -> None:
        """For a connection of a broker that was accepted beyond max.connections."""
        for excess in self._limits.take_excess(self._services.settings):
            excess.give_up("its place goes to a broker: there are more than max.connections")

    def _forget(self, connection: Connection) -> None:
        self._limits.forget(connection)
        if self._closed is not None:
            self._closed(connection.stream.peer)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    async def _sweep(self) -> None:
        idle_ms = self._services.settings.connections_max_idle_ms
        if idle_ms < 0:
            return  # as in Apache Kafka: never
        clock = self._services.world.clock
        while True:
            await asyncio.sleep(max(idle_ms // SWEEPS_PER_IDLE_TIME, SWEEP_MS_MIN) / 1000)
            moment_ms = clock.monotonic_ms() - idle_ms
            for connection in list(self.connections):
                if connection.is_idle_since(moment_ms):
                    logger.info("idle connection closed peer=%s", connection.stream.peer)
                    connection.close()

    async def _relieve(self) -> None:
        """While requests wait for memory, those that hold it and do not come on are given up, the
        largest first: a few peers that stop half way would stop all others.
        """
        while True:
            await self.budget.short.wait()
            await asyncio.sleep(RELIEVED_EVERY_S)
            if self.budget.short.is_set():
                self._give_up_stalled()

    def _give_up_stalled(self) -> None:
        moment_ms = self._services.world.clock.monotonic_ms() - limit.REQUEST_STALLED_MS
        stalled = [one for one in self.connections if one.is_stalled_since(moment_ms)]
        if stalled:
            most = max(stalled, key=lambda one: one.bytes_held)
            most.give_up(
                f"its request of {most.bytes_held} bytes or more has stalled, and others wait for"
                f" memory, of which requests hold {self.budget.held_bytes} bytes"
            )


def socket_options(settings: BrokerSettings) -> SocketOptions:
    """Buffer sizes that nobody asked for are left to the system, which adapts them to the load."""

    def asked(name: str, size: int) -> int | None:
        return size if name in settings.given and size > 0 else None

    return SocketOptions(
        backlog=max(settings.socket_listen_backlog_size, limit.CONNECTION_BACKLOG),
        send_buffer_bytes=asked("socket.send.buffer.bytes", settings.socket_send_buffer_bytes),
        receive_buffer_bytes=asked(
            "socket.receive.buffer.bytes", settings.socket_receive_buffer_bytes
        ),
    )
