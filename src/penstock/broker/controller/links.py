"""Connections from this node to others, addressed by node id.

A node has several lanes, each with a connection of its own, because replies come in the order of
their requests: a vote must not wait behind a fetch that waits for records. A lane connects when it
is first used, and again after its connection was lost. `node/connections` says how: a node that is
a cluster of its own does not even import that.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from penstock.client.network.errors import ClientError, ConnectionLost
from penstock.model.identity import NodeId
from penstock.wire.definition import Message
from penstock.world.errors import ConnectionRefused
from penstock.world.ports import Address, Network
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:
    from penstock.client.network.channel import Channel
    from penstock.client.network.view_channel import ViewChannel

AnyReply = TypeVar("AnyReply", bound=Message)


class OpenChannel(Protocol):
    async def __call__(
        self,
        network: Network,
        address: Address,
        *,
        client_id: str,
        tasks: TaskGroup,
        timeout_ms: int,
    ) -> "Channel":
        """Connects and shakes hands. ClientError when that fails."""


class OpenViewChannel(Protocol):
    async def __call__(
        self, network: Network, address: Address, *, client_id: str, timeout_ms: int
    ) -> "ViewChannel":
        """Connects and shakes hands. ClientError when that fails."""


class Lane(Enum):
    """What never waits for what belongs to another lane. Fetches of replicas have connections of
    their own: see `Links.connect`.
    """

    ELECTIONS = "elections"
    METADATA = "metadata"
    HEARTBEATS = "heartbeats"
    IN_SYNC = "in sync"
    FORWARDING = "forwarding"
    MARKERS = "markers"
    VERIFICATION = "verification"


class _Key(NamedTuple):
    node_id: NodeId
    lane: Lane


class NodeUnknown(ClientError):
    """Nobody has said where this node listens."""


class NodeDown(ClientError):
    """The node's machine refused a connection: the process does not run."""


class Links:
    """`address_of` says where a node listens now; None while that is not known."""

    def __init__(
        self,
        *,
        network: Network,
        client_id: str,
        address_of: Callable[[NodeId], Address | None],
        tasks: TaskGroup,
        open_channel: OpenChannel,
        open_view_channel: OpenViewChannel | None = None,
    ) -> None:
        self._open_channel = open_channel
        self._open_view_channel = open_view_channel
        self._network = network
        self._client_id = client_id
        self._address_of = address_of
        self._tasks = tasks
        self._channels: dict[_Key, Channel] = {}
        self._connecting: dict[_Key, asyncio.Lock] = {}
        self._is_closed = False

    async def ask(
        self,
        node_id: NodeId,
        request: Message,
        reply_type: type[AnyReply],
        *,
        lane: Lane,
        timeout_ms: int,
        connect_timeout_ms: int | None = None,
        version: int | None = None,
    ) -> AnyReply:
        """The reply. NodeDown when the node's process does not run, another ClientError for any
        other failure. A reply that is late closes the lane, and with it all that waits there.
        `timeout_ms` is for the reply, and for the connection too unless that has its own.
        """
        connect_ms = timeout_ms if connect_timeout_ms is None else connect_timeout_ms
        try:
            # Others may be connecting, with more time: nobody waits for them longer than its own.
            async with asyncio.timeout(connect_ms / 1000):
                channel = await self._channel(_Key(node_id, lane), timeout_ms=connect_ms)
        except TimeoutError as error:
            late = f"node {node_id}: no connection within {connect_ms} ms"
            raise ConnectionLost(late) from error
        return await channel.ask(request, reply_type, timeout_ms=timeout_ms, version=version)

    async def connect(self, node_id: NodeId, *, timeout_ms: int) -> "ViewChannel":
        """A connection that is the caller's own, to close as well. Failures as in `ask`."""
        assert self._open_view_channel is not None
        address = self._address_of(node_id)
        if address is None:
            raise NodeUnknown(f"node {node_id}: no address is known")
        try:
            return await self._open_view_channel(
                self._network, address, client_id=self._client_id, timeout_ms=timeout_ms
            )
        except ClientError as error:
            if isinstance(error.__cause__, ConnectionRefused):
                raise NodeDown(str(error)) from error
            raise

    def close(self) -> None:
        """Also what is just being opened."""
        self._is_closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    async def _channel(self, key: _Key, *, timeout_ms: int) -> "Channel":
        async with self._connecting.setdefault(key, asyncio.Lock()):
            address = self._address_of(key.node_id)
            if address is None:
                raise NodeUnknown(f"node {key.node_id}: no address is known")
            known = self._channels.get(key)
            if known is not None and known.is_open and known.address == address:
                return known
            if known is not None:
                if not known.is_retired:  # else it closes by itself, after the last reply
                    known.close()
                del self._channels[key]
            channel = await self._open(address, timeout_ms=timeout_ms)
            if self._is_closed:
                channel.close()
            self._channels[key] = channel
            return channel

    async def _open(self, address: Address, *, timeout_ms: int) -> "Channel":
        try:
            return await self._open_channel(
                self._network,
                address,
                client_id=self._client_id,
                tasks=self._tasks,
                timeout_ms=timeout_ms,
            )
        except ClientError as error:
            if isinstance(error.__cause__, ConnectionRefused):
                raise NodeDown(str(error)) from error
            raise
