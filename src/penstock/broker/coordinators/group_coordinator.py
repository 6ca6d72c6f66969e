"""The group coordinator of a broker: the shards that it leads, by partition, and their time.

`apply` follows the metadata, `run` loads shards and keeps their time (`led_shards`). `ask` is what
the APIs call; it runs to its end without a pause unless the answer has to wait.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

from penstock.broker.controller.broker_lease import BrokerLease
from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.group_log import Rebalances
from penstock.broker.coordinators.internal_topic import InternalTopic
from penstock.broker.coordinators.led_host import Stage
from penstock.broker.coordinators.led_shard import LedShard
from penstock.broker.coordinators.led_shards import LedShards, require_lease, require_loaded
from penstock.broker.coordinators.load_waits import LoadWaits
from penstock.broker.coordinators.loading import load
from penstock.broker.coordinators.marker_sending import Written
from penstock.broker.coordinators.offsets_topic import offsets_topic
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.broker.partitions.partitions import Partitions
from penstock.groups.decision_context import DecisionContext
from penstock.groups.offsets.delete import ForgetTopics, Progress
from penstock.groups.offsets.transactional import EndTransaction
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import GroupRecord
from penstock.groups.replay import LatestRecords
from penstock.groups.requests import Asked
from penstock.groups.shard import GroupShard
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.groups import GroupSettings
from penstock.records.compression import Codec
from penstock.replication.marker import EPOCH_PER_TRANSACTION, Marker, refuse_marker
from penstock.replication.partition import Partition
from penstock.security.acl.authorizer import Access
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.header import RequestHeader
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup

MEMBERS_COUNTED_EVERY_MS = 1000
RETRY_SECONDS = 1.0
GONE = (Stage.ENDED, Stage.UNREADABLE)
DASH = 62  # the number of "-" in URL-safe base64


class Origin(Protocol):
    """Where a request came from."""

    @property
    def header(self) -> RequestHeader: ...

    @property
    def peer(self) -> Address: ...

    @property
    def access(self) -> Access | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ourselves:
    header: RequestHeader
    peer: Address
    access: Access | None = None


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
        may_be_alone: bool = True,
        lease: BrokerLease | None = None,  # None: nobody else can take over
    ) -> None:
        self._node_id = node_id
        self._may_be_alone = may_be_alone
        self._lease = BrokerLease(timeout_ms=None) if lease is None else lease
        self._world = world
        self._partitions = partitions
        self._topic = InternalTopic(controller, OFFSETS_TOPIC)
        self._settings = settings
        self._image = Image()
        self._shards: LedShards[LedShard] = LedShards(
            OFFSETS_TOPIC,
            partitions=partitions,
            clock=world.clock,
            lead=self._lead,
            load=self._load,
            keep_time=self._keep_time_of,
        )
        self._forgetting: dict[LedShard, ForgetTopics] = {}
        self._load_waits = LoadWaits()
        self._tickets_given = 0
        self._members = 0
        self._members_counted_ms: int | None = None
        self._to_forget = asyncio.Event()
        # Counted for metrics, where a node tells them: set before the first shard is led.
        self.rebalances: Rebalances | None = None

    @property
    def shards(self) -> Iterator[GroupShard]:
        """Those that serve, for whoever wants to look at them."""
        return (led.shard for led in self._shards if led.host.serves)

    @property
    def has_topic(self) -> bool:
        return OFFSETS_TOPIC in self._image.topics_by_name

    def check(self) -> None:
        self._shards.check()

    def apply(self, delta: Delta, image: Image, settings: GroupSettings) -> None:
        """Follows a change of the metadata, after the partitions have."""
        self._image = image
        self._settings = settings
        self._topic.follow(image)
        changed = (*delta.topics_deleted, *delta.topics_created, *delta.topics_changed)
        if any(topic.name == OFFSETS_TOPIC for topic in changed):
            self._shards.follow(image)
            self._ask_again()  # what belongs to another broker now is refused at once
            self._forgetting = {
                led: asked for led, asked in self._forgetting.items() if led.host.stage not in GONE
            }
        # Of the shards as they are now: one change may delete a topic and elect leaders.
        gone = [topic for topic in delta.topics_deleted if topic.name != OFFSETS_TOPIC]
        if gone and len(self._shards) > 0:
            asked = ForgetTopics(
                ids_by_name={topic.name: frozenset({topic.topic_id}) for topic in gone}
            )
            for led in self._shards:
                self._forget_later(led, asked)
            self._to_forget.set()

    def close(self) -> None:
        """The node stops: whoever waits is told to look for another coordinator."""
        self._shards.close()
        self._ask_again()

    async def run(self) -> None:
        """Loads shards and keeps their time until cancelled."""
        async with TaskGroup() as tasks:
            tasks.start(self._shards.run())
            tasks.start(self._keep_forgetting())

    def ask(self, group_id: str, request: object, origin: Origin) -> Any | asyncio.Future[Any]:
        """The reply to a request about a group, or a future of it. RequestError, now or later, when
        this broker does not coordinate the group, or not yet.
        """
        return self._ask(self._shards.find(group_id), request, origin)

    def read(self, group_id: str, request: object, origin: Origin) -> Any | asyncio.Future[Any]:
        """As `ask`, for a question whose answer no write confirms and clients go on from: it is
        refused, too, when another broker may coordinate the group without this one knowing it.
        """
        led = self._shards.find(group_id)
        require_lease(self._lease, self._world.clock)
        return self._ask(led, request, origin)

    def ask_once_loaded(self, group_id: str, request: object, origin: Origin) -> Any:
        """As `ask`; while the shard is being loaded the request waits for a moment. The reply, or
        an awaitable of it.
        """
        index = self._shards.index_of(group_id)
        return self._load_waits.ask(index, partial(self.ask, group_id, request, origin))

    def index_of(self, group_id: str) -> int:
        """The partition of a group's offsets. RequestError while there is no such topic."""
        return self._shards.index_of(group_id)

    def write_marker(self, index: int, marker: Marker) -> Written | ErrorCode:
        """Ends a transaction in a partition of offsets that is led here."""
        partition = self._partitions.find(OFFSETS_TOPIC, index)
        if not isinstance(partition, Partition):
            return partition
        refused = refuse_marker(marker, partition.log.producers.by_id.get(marker.producer_id))
        if refused is not None:
            return refused.code
        request = EndTransaction(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            committed=marker.committed,
        )
        try:
            reply = self._ask(self._shards.at(index), request, OURSELVES)
        except RequestError:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # whoever asks tries again
        if isinstance(reply, asyncio.Future):
            reply.cancel()  # when it is committed is seen from the partition
        if marker.transaction_version < EPOCH_PER_TRANSACTION:
            partition.guards.clear(marker.producer_id)
        return partition, partition.log.end_offset

    async def ask_all_shards(self, request: object, origin: Origin) -> list[Any]:
        """One reply of each shard. RequestError when one of them cannot tell yet.

        Those that have ended, or never will tell, are left out: what the others hold is to be had.
        """
        replies = []
        for led in self._shards:
            if led.host.stage in GONE:
                continue
            reply = self._ask(led, request, origin)
            try:
                replies.append(await reply if isinstance(reply, asyncio.Future) else reply)
            except RequestError:
                if led.host.stage not in GONE:
                    raise
        return replies

    async def create_topic(self) -> None:
        """Makes `__consumer_offsets` if there is none. RequestError when it could not be made."""
        if not self.has_topic:
            wanted = offsets_topic(self._image, self._settings, may_be_alone=self._may_be_alone)
            await self._topic.create(wanted)

    def _ask(self, led: LedShard, request: object, origin: Origin) -> Any | asyncio.Future[Any]:
        require_loaded(led.host)
        self._tickets_given += 1
        context = self._situation(origin.access)
        reply = led.ask(
            Asked(
                request=request,
                version=origin.header.api_version,
                ticket=self._tickets_given,
                client_id=origin.header.client_id or "",
                client_host=f"/{origin.peer.host}",
            ),
            context,
            deadline_ms=self._deadline_ms(context),
        )
        self._shards.wake_for(led)
        return reply

    def _situation(self, access: Access | None = None) -> DecisionContext:
        clock = self._world.clock
        monotonic_ms = clock.monotonic_ms()
        counted_ms = self._members_counted_ms
        if counted_ms is None or monotonic_ms >= counted_ms + MEMBERS_COUNTED_EVERY_MS:
            self._members_counted_ms = monotonic_ms
            self._members = sum(shard.member_count() for shard in self.shards)
        return DecisionContext(
            image=self._image,
            settings=self._settings,
            now_ms=clock.now_ms(),
            monotonic_ms=monotonic_ms,
            fresh_id=self._fresh_id,
            members_on_node=self._members,
            may_describe=(
                None
                if access is None
                else partial(access.may, AclOperation.DESCRIBE, ResourceType.TOPIC)
            ),
        )

    def _deadline_ms(self, context: DecisionContext) -> int:
        return context.monotonic_ms + self._settings.offsets_commit_timeout_ms

    def _fresh_id(self) -> str:
        """Random; without a leading dash, which looks like an option to tools."""
        while True:
            fresh = self._world.entropy.random_bytes(16)
            if fresh[0] >> 2 != DASH:
                return id_text(fresh)

    def _lead(self, partition: Partition) -> LedShard:
        codec = Codec(self._settings.offsets_topic_compression_codec)
        journal: PartitionJournal[GroupRecord] = PartitionJournal(
            partition,
            partial(group_batch, codec=codec),
            clock=self._world.clock,
            append_failed=self._partitions.append_failed,
            want_sync=self._partitions.want_sync,
        )
        led = LedShard(partition, journal, has_opened=self._has_opened, rebalances=self.rebalances)
        if partition.log.end_offset == partition.log.start_offset:
            led.replay((), next_offset=partition.log.end_offset)
            led.loaded(self._situation())
        return led

    async def _load(self, led: LedShard) -> None:
        await load(led, LatestRecords(), self._situation, self._world.clock)

    def _has_opened(self, led: LedShard) -> None:
        self._members_counted_ms = None
        led.begin_sessions(self._situation())
        self._shards.look_again()
        self._to_forget.set()

    def _keep_time_of(self, led: LedShard) -> bool:
        context = self._situation()
        did = led.keep_time(context, deadline_ms=self._deadline_ms(context))
        if led.is_beginning:
            self._shards.look_again()
        elif led.host.serves:
            self._load_waits.ask_again(led.host.partition.name.partition)
        return did

    def _ask_again(self) -> None:
        for index in self._load_waits:
            self._load_waits.ask_again(index)

    async def _keep_forgetting(self) -> None:
        """Removes the offsets of deleted topics; a shard that cannot now is asked again."""
        while True:
            await self._to_forget.wait()
            self._to_forget.clear()
            await self._forget_all()
            if any(led.host.stage is Stage.LOADED for led in self._forgetting):
                await asyncio.sleep(RETRY_SECONDS)
                self._to_forget.set()

    async def _forget_all(self) -> None:
        waiting, self._forgetting = self._forgetting, {}
        for led, asked in waiting.items():
            if not await self._forget(led, asked):
                self._forget_later(led, asked)

    def _forget_later(self, led: LedShard, topics: ForgetTopics) -> None:
        """One request for each shard, however many topics are deleted while it cannot be asked."""
        known = self._forgetting.get(led)
        self._forgetting[led] = topics if known is None else known.also(topics)

    async def _forget(self, led: LedShard, topics: ForgetTopics) -> bool:
        """Whether nothing is left to do."""
        while led.host.stage is not Stage.ENDED:
            try:
                reply = self._ask(led, topics, OURSELVES)
                progress = await reply if isinstance(reply, asyncio.Future) else reply
            except RequestError:
                return led.host.stage in (Stage.ENDED, Stage.UNREADABLE)
            if progress is Progress.DONE:
                return True
            await asyncio.sleep(0)
        return True
