"""The group coordinator of a broker: the shards that it leads, by partition, and their time.

`apply` follows the metadata: a partition of `__consumer_offsets` that this broker leads becomes a
shard, one that it leads no more ends. `run` loads shards and keeps their time. `ask` is what the
APIs call; it runs to its end without a pause unless the answer has to wait.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.broker.controller_link import ControllerLink
from penstock.broker.coordinators.group_journal import GroupJournal
from penstock.broker.coordinators.led_shard import LedShard, Stage
from penstock.broker.coordinators.loading import load
from penstock.broker.coordinators.offsets_topic import OffsetsTopic
from penstock.broker.partitions import Partitions
from penstock.groups.asking import Asked
from penstock.groups.offsets.delete import ForgetTopics, Progress
from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.groups.shard import GroupShard
from penstock.groups.situation import Situation
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, id_text
from penstock.model.settings.groups import GroupSettings
from penstock.records.compression import Codec
from penstock.replication.partition import Partition
from penstock.wire.header import RequestHeader
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup

MEMBERS_COUNTED_EVERY_MS = 1000
RETRY_SECONDS = 1.0
DASH = 62  # the number of "-" in URL-safe base64

Part = TypeVar("Part")
Reply = TypeVar("Reply")


class Origin(Protocol):
    """Where a request came from."""

    @property
    def header(self) -> RequestHeader: ...

    @property
    def peer(self) -> Address: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ourselves:
    header: RequestHeader
    peer: Address


OURSELVES = Ourselves(
    header=RequestHeader(api_key=-1, api_version=0, correlation_id=0, client_id=None),
    peer=Address(host="", port=0),
)


class GroupCoordinator:
    """See the module. Shards are kept in the order of their partitions."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        world: World,
        partitions: Partitions,
        controller: ControllerLink,
        settings: GroupSettings,
    ) -> None:
        self._node_id = node_id
        self._world = world
        self._partitions = partitions
        self._topic = OffsetsTopic(controller)
        self._settings = settings
        self._image = Image()
        self._shards: dict[int, LedShard] = {}
        self._forgetting: list[tuple[LedShard, ForgetTopics]] = []
        self._tickets_given = 0
        self._members = 0
        self._members_counted_ms: int | None = None
        self._to_load = asyncio.Event()
        self._to_forget = asyncio.Event()
        self._sooner = asyncio.Event()
        self._wake_ms: int | None = None  # when the next look at deadlines is due

    @property
    def shards(self) -> Iterator[GroupShard]:
        """Those that serve, for whoever wants to look at them."""
        return (led.shard for led in self._shards.values() if led.serves)

    def check(self) -> None:
        for led in self._shards.values():
            led.check()

    def apply(self, delta: Delta, image: Image, settings: GroupSettings) -> None:
        """Follows a change of the metadata, after the partitions have."""
        self._image = image
        self._settings = settings
        gone = [topic for topic in delta.topics_deleted if topic.name != OFFSETS_TOPIC]
        if gone and self._shards:
            asked = ForgetTopics(
                names=tuple(topic.name for topic in gone),
                topic_ids=frozenset(topic.topic_id for topic in gone),
            )
            self._forgetting += [(led, asked) for led in self._shards.values()]
            self._to_forget.set()
        changed = (*delta.topics_deleted, *delta.topics_created, *delta.topics_changed)
        if any(topic.name == OFFSETS_TOPIC for topic in changed):
            self._follow_partitions()

    def close(self) -> None:
        """The node stops: whoever waits is told to look for another coordinator."""
        for led in self._shards.values():
            led.end()
        self._shards = {}

    async def run(self) -> None:
        """Loads shards and keeps their time until cancelled."""
        async with TaskGroup() as tasks:
            tasks.start(self._keep_loading())
            tasks.start(self._keep_time())
            tasks.start(self._keep_forgetting())

    def ask(self, group_id: str, request: object, origin: Origin) -> Any | asyncio.Future[Any]:
        """The reply to a request about a group, or a future of it. RequestError, now or later, when
        this broker does not coordinate the group, or not yet.
        """
        return self._ask(self._led(group_id), request, origin)

    async def ask_each(
        self,
        parts: Sequence[Part],
        ask: Callable[[Part], Any | asyncio.Future[Any]],
        refuse: Callable[[Part, ErrorCode], Reply],
    ) -> list[Reply]:
        """The replies to the parts of a batched request; one that is refused spoils no other."""
        replies: list[Any] = []
        for part in parts:
            try:
                replies.append(ask(part))
            except RequestError as refusal:
                replies.append(refuse(part, refusal.code))
        try:
            for number, reply in enumerate(replies):
                if isinstance(reply, asyncio.Future):
                    try:
                        replies[number] = await reply
                    except RequestError as refusal:
                        replies[number] = refuse(parts[number], refusal.code)
        finally:
            for reply in replies:
                if isinstance(reply, asyncio.Future):
                    reply.cancel()
        return replies

    async def ask_all_shards(self, request: object, origin: Origin) -> list[Any]:
        """One reply of each shard. RequestError when one of them cannot tell."""
        replies = []
        for led in tuple(self._shards.values()):
            reply = self._ask(led, request, origin)
            replies.append(await reply if isinstance(reply, asyncio.Future) else reply)
        return replies

    async def create_topic(self) -> None:
        """Makes `__consumer_offsets` if there is none. RequestError when it could not be made."""
        if OFFSETS_TOPIC not in self._image.topics_by_name:
            await self._topic.create(self._image, self._settings)

    def _led(self, group_id: str) -> LedShard:
        topic = self._image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR, "no group has a coordinator yet")
        index = partition_of(group_id, partition_count=len(topic.partitions))
        led = self._shards.get(index)
        if led is None or led.stage is Stage.ENDED:
            raise RequestError(ErrorCode.NOT_COORDINATOR, "another broker coordinates the group")
        return led

    def _ask(self, led: LedShard, request: object, origin: Origin) -> Any | asyncio.Future[Any]:
        if led.stage is Stage.LOADING:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the group is being loaded")
        if led.stage is not Stage.LOADED:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group cannot be read")
        self._tickets_given += 1
        situation = self._situation()
        reply = led.ask(
            Asked(
                request=request,
                version=origin.header.api_version,
                ticket=self._tickets_given,
                client_id=origin.header.client_id or "",
                client_host=f"/{origin.peer.host}",
            ),
            situation,
            deadline_ms=self._deadline_ms(situation),
        )
        self._wake_for(led)
        return reply

    def _situation(self) -> Situation:
        clock = self._world.clock
        monotonic_ms = clock.monotonic_ms()
        counted_ms = self._members_counted_ms
        if counted_ms is None or monotonic_ms >= counted_ms + MEMBERS_COUNTED_EVERY_MS:
            self._members_counted_ms = monotonic_ms
            self._members = sum(shard.member_count() for shard in self.shards)
        return Situation(
            image=self._image,
            settings=self._settings,
            now_ms=clock.now_ms(),
            monotonic_ms=monotonic_ms,
            fresh_id=self._fresh_id,
            members_on_node=self._members,
        )

    def _deadline_ms(self, situation: Situation) -> int:
        return situation.monotonic_ms + self._settings.offsets_commit_timeout_ms

    def _fresh_id(self) -> str:
        """Random; without a leading dash, which looks like an option to tools."""
        while True:
            fresh = self._world.entropy.random_bytes(16)
            if fresh[0] >> 2 != DASH:
                return id_text(fresh)

    def _follow_partitions(self) -> None:
        topic = self._image.topics_by_name.get(OFFSETS_TOPIC)
        led: dict[int, LedShard] = {}
        for index in range(0 if topic is None else len(topic.partitions)):
            partition = self._partitions.find(OFFSETS_TOPIC, index)
            if not isinstance(partition, Partition):
                continue
            known = self._shards.get(index)
            if known is not None and known.partition is partition:
                led[index] = known
            else:
                led[index] = self._lead(partition)
        for index, shard in self._shards.items():
            if led.get(index) is not shard:
                shard.end()
        self._shards = led
        self._to_load.set()

    def _lead(self, partition: Partition) -> LedShard:
        journal = GroupJournal(
            partition,
            clock=self._world.clock,
            codec=Codec(self._settings.offsets_topic_compression_codec),
            append_failed=self._partitions.append_failed,
            want_sync=self._partitions.want_sync,
        )
        led = LedShard(partition, journal)
        if partition.log.end_offset == partition.log.start_offset:
            led.replay((), next_offset=partition.log.end_offset)
            led.loaded(self._situation())
        return led

    async def _keep_loading(self) -> None:
        while True:
            await self._to_load.wait()
            self._to_load.clear()
            for led in tuple(self._shards.values()):
                if led.stage is Stage.LOADING:
                    await self._load(led)

    async def _load(self, led: LedShard) -> None:
        if await load(led, self._situation, self._world.clock):
            self._members_counted_ms = None
            self._wake_for(led)
            self._to_forget.set()

    def _wake_for(self, led: LedShard) -> None:
        next_ms = led.next_ms()
        if next_ms is not None and (self._wake_ms is None or next_ms < self._wake_ms):
            self._sooner.set()

    async def _keep_time(self) -> None:
        while True:
            for led in tuple(self._shards.values()):
                await self._keep_time_of(led)
            nexts = [at for led in self._shards.values() if (at := led.next_ms()) is not None]
            self._wake_ms = min(nexts, default=None)
            self._sooner.clear()
            wait_ms = None
            if self._wake_ms is not None:
                wait_ms = max(self._wake_ms - self._world.clock.monotonic_ms(), 1)
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    async def _keep_time_of(self, led: LedShard) -> None:
        while True:
            situation = self._situation()
            if not led.keep_time(situation, deadline_ms=self._deadline_ms(situation)):
                return
            await asyncio.sleep(0)

    async def _keep_forgetting(self) -> None:
        """Removes the offsets of deleted topics; a shard that cannot now is asked again."""
        while True:
            await self._to_forget.wait()
            self._to_forget.clear()
            waiting, self._forgetting = self._forgetting, []
            for led, asked in waiting:
                if not await self._forget(led, asked):
                    self._forgetting.append((led, asked))
            if any(led.stage is Stage.LOADED for led, _ in self._forgetting):
                await asyncio.sleep(RETRY_SECONDS)
                self._to_forget.set()

    async def _forget(self, led: LedShard, topics: ForgetTopics) -> bool:
        """Whether nothing is left to do."""
        while led.stage is not Stage.ENDED:
            try:
                reply = self._ask(led, topics, OURSELVES)
                progress = await reply if isinstance(reply, asyncio.Future) else reply
            except RequestError:
                return led.stage in (Stage.ENDED, Stage.UNREADABLE)
            if progress is Progress.DONE:
                return True
            await asyncio.sleep(0)
        return True
