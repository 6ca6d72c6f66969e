"""The way to the brokers: which ones there are, who leads what, and an open channel to each.

`view` is what is known now (see `routing`); `refresh` asks again. Channels are opened when first
needed, one for each broker and lane, and a lost one is replaced at the next need. All tasks of a
client belong to its Cluster, which is used as `async with`.
"""

import asyncio
from collections.abc import Collection, Iterable
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar

from penstock.client.network.channel import Channel, open_channel
from penstock.client.network.connection import Features
from penstock.client.network.errors import (
    STALE_METADATA,
    AuthenticationFailed,
    ClientError,
    ConnectionLost,
    Refused,
    Unreachable,
    error_code,
)
from penstock.client.network.routing import ClusterView, controllers_view, merged
from penstock.client.network.security import ClientSecurity
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.definition import Message
from penstock.wire.messages.describe_cluster import (
    CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from penstock.world.ports import Address, Clock, Network
from penstock.world.tasks import TaskGroup

AnyReply = TypeVar("AnyReply", bound=Message)


class Lane(Enum):
    """Replies come in the order of requests, so what may wait long must not stand before what may
    not.
    """

    QUESTIONS = "questions"
    PRODUCE = "produce"
    FETCH = "fetch"
    MEMBERSHIP = "membership"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRules:
    client_id: str = "penstock"
    security: ClientSecurity | None = None  # None: plain text, nobody in particular
    connect_ms_max: int = 10_000
    request_ms_max: int = 30_000
    backoff_ms: int = 100
    reach_ms_max: int = 0  # so long brokers that can't be reached are tried again
    metadata_ms_max: int = 300_000  # who sends asks again when the view is older
    topic_ms_max: int = 1_000  # a topic just made may not be known to all brokers yet
    create_topics: bool = (
        False  # whether asking for an unknown topic may create it, if the broker does so
    )


class Cluster:
    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Iterable[Address],
        *,
        rules: ClusterRules | None = None,
    ) -> None:
        self.network = network
        self.clock = clock
        self.bootstrap = tuple(bootstrap)
        assert self.bootstrap, "at least one broker must be named"
        self.rules = rules or ClusterRules()
        self.view = ClusterView()
        self._view_ms = clock.monotonic_ms()
        self.features = Features()  # the newest that a broker told when a channel was opened
        self.tasks = TaskGroup()
        self._topics: dict[
            str, None
        ] = {}  # what a refresh asks for, in the order it was first needed
        self._channels: dict[tuple[Address, Lane], Channel] = {}
        self._opening: dict[tuple[Address, Lane], asyncio.Lock] = {}
        self._refreshing = asyncio.Lock()
        self._refreshes = 0

    async def __aenter__(self) -> Self:
        await self.tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for channel in self._channels.values():
            channel.close()
        await self.tasks.__aexit__(kind, error, trace)

    @property
    def view_is_old(self) -> bool:
        """Whether it has to be asked for again, though nothing says that it is wrong: a topic may
        have more partitions by now.
        """
        return self.clock.monotonic_ms() - self._view_ms >= self.rules.metadata_ms_max

    async def channel(self, node: NodeId, lane: Lane = Lane.QUESTIONS) -> Channel:
        """An open channel to a node; ClientError when it is unknown or can't be reached."""
        broker = self.view.brokers.get(node)
        if broker is None:
            raise Unreachable(f"no broker {node} is known in the cluster")
        return await self._channel_to(broker.address, lane)

    async def any_channel(self, *, avoid: Collection[NodeId] = ()) -> Channel:
        """An open channel to whichever broker answers: known ones first, then those named at the
        start. Those to `avoid` are asked only if no other broker can be. Unreachable when none has
        answered in the time that the rules give them.
        """
        deadline_ms = self.clock.monotonic_ms() + self.rules.reach_ms_max
        while True:
            try:
                return await self._any_channel(avoid)
            except Unreachable:
                if self.clock.monotonic_ms() >= deadline_ms:
                    raise
            await asyncio.sleep(self.rules.backoff_ms / 1000)

    async def ask_any(
        self, request: Message, reply_type: type[AnyReply], *, avoid: Collection[NodeId] = ()
    ) -> AnyReply:
        channel = await self.any_channel(avoid=avoid)
        return await channel.ask(request, reply_type, timeout_ms=self.rules.request_ms_max)

    async def ask_controller(self, request: Message, reply_type: type[AnyReply]) -> AnyReply:
        """For what the controller decides. Brokers forward it since 3.0; older ones must be asked
        themselves.
        """
        if self.view.controller is None:
            await self.refresh(())
        if self.view.controller is None:
            return await self.ask_any(request, reply_type)
        return await self.ask(self.view.controller, request, reply_type)

    async def ask(
        self, node: NodeId, request: Message, reply_type: type[AnyReply], version: int | None = None
    ) -> AnyReply:
        channel = await self.channel(node)
        return await channel.ask(
            request, reply_type, timeout_ms=self.rules.request_ms_max, version=version
        )

    async def refresh(self, topics: Iterable[str] = ()) -> ClusterView:
        """Asks a broker for the brokers and for all topics ever needed; those who ask at once
        share one reply.
        """
        for topic in topics:
            self._topics.setdefault(topic)
        seen = self._refreshes
        async with self._refreshing:
            if self._refreshes > seen + 1:
                return self.view  # begun after we asked, and done by now
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in self._topics],
                allow_auto_topic_creation=self.rules.create_topics,
            )
            self._accept(await self._ask_metadata(request), all_topics=False)
        return self.view

    async def refresh_all(self) -> ClusterView:
        """The same for every topic that there is."""
        async with self._refreshing:
            reply = await self._ask_metadata(MetadataRequest(topics=None))
            self._accept(reply, all_topics=True)
        return self.view

    async def refresh_controllers(self) -> ClusterView:
        """For a client that was given controllers to begin with (KIP-919): the view has the
        controllers in the place of brokers, no topics, and whom `ask_controller` asks.
        """
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        reply = await self.ask_any(request, DescribeClusterResponse)
        code = error_code(reply.error_code)
        if code == ErrorCode.NONE and reply.endpoint_type != CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if code != ErrorCode.NONE:
            raise Refused(code, "controllers", reply.error_message)
        self.view = controllers_view(reply)
        return self.view

    async def need(self, topics: Iterable[str], *, wait_ms: int | None = None) -> ClusterView:
        """A view that knows these topics; Refused when one is still unknown after `wait_ms`."""
        needed = list(topics)
        wait_ms = self.rules.topic_ms_max if wait_ms is None else wait_ms
        deadline_ms = self.clock.monotonic_ms() + wait_ms
        while any(topic not in self.view.topics for topic in needed):
            view = await self.refresh(needed)
            missing = [topic for topic in needed if topic not in view.topics]
            if not missing:
                break
            code = view.errors.get(missing[0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code not in STALE_METADATA or self.clock.monotonic_ms() >= deadline_ms:
                for topic in missing:
                    self._topics.pop(topic, None)
                raise Refused(code, missing[0], _why(code))
            await asyncio.sleep(self.rules.backoff_ms / 1000)
        return self.view

    async def _ask_metadata(self, request: MetadataRequest) -> MetadataResponse:
        """A broker that goes away over the question is no answer: another one is asked, within the
        time that the rules give brokers to be reached.
        """
        deadline_ms = self.clock.monotonic_ms() + self.rules.reach_ms_max
        while True:
            try:
                return await self.ask_any(request, MetadataResponse)
            except ConnectionLost:
                if self.clock.monotonic_ms() >= deadline_ms:
                    raise
            await asyncio.sleep(self.rules.backoff_ms / 1000)

    def _accept(self, reply: MetadataResponse, *, all_topics: bool) -> None:
        code = error_code(reply.error_code)
        if code != ErrorCode.NONE:
            raise Refused(code, "metadata")
        self.view = merged(self.view, reply, all_topics=all_topics)
        self._view_ms = self.clock.monotonic_ms()
        self._refreshes += 1

    async def _any_channel(self, avoid: Collection[NodeId]) -> Channel:
        brokers = self.view.brokers
        last = {brokers[node].address for node in avoid if node in brokers}
        for (address, lane), channel in self._channels.items():
            if lane is Lane.QUESTIONS and channel.is_open and address not in last:
                return channel
        known = [broker.address for broker in self.view.brokers.values()]
        reasons: dict[str, None] = {}
        addresses = dict.fromkeys((*known, *self.bootstrap))
        for address in sorted(addresses, key=lambda one: one in last):
            try:
                return await self._channel_to(address, Lane.QUESTIONS)
            except AuthenticationFailed:
                raise  # the others would say the same
            except ClientError as error:
                reasons[str(error)] = None
        raise Unreachable("no broker can be reached: " + "; ".join(reasons))

    async def _channel_to(self, address: Address, lane: Lane) -> Channel:
        place = (address, lane)
        channel = self._channels.get(place)
        if channel is not None and channel.is_open:
            return channel
        async with self._opening.setdefault(place, asyncio.Lock()):
            channel = self._channels.get(place)
            if channel is not None and channel.is_retired:
                await channel.ended()  # what was sent there comes before what will be sent now
            if channel is None or not channel.is_open:
                security = self.rules.security
                channel = await open_channel(
                    self.network,
                    address,
                    client_id=self.rules.client_id,
                    tasks=self.tasks,
                    timeout_ms=self.rules.connect_ms_max,
                    login=None if security is None else security.login,
                )
                self._channels[place] = channel
                if channel.features.epoch >= self.features.epoch:
                    self.features = channel.features
        return channel


def _why(code: ErrorCode) -> str | None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "there is no such topic"
    return None
