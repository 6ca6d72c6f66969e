"""The transaction coordinator of a broker: the shards that it leads, and their markers.

`apply` follows the metadata, `run` loads shards, keeps their time and sends markers. `ask` is what
the APIs call; it runs to its end without a pause unless the answer has to wait. A transaction whose
partitions commit at once is complete when the answer to its end is given.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.broker.controller.broker_lease import BrokerLease
from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.links import Links
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.coordinators.fencing_log import Client
from penstock.broker.coordinators.internal_topic import InternalTopic
from penstock.broker.coordinators.led_host import Stage
from penstock.broker.coordinators.led_shards import LedShards, require_lease, require_loaded
from penstock.broker.coordinators.led_transactions import LedTransactions
from penstock.broker.coordinators.loading import load
from penstock.broker.coordinators.marker_sending import MarkerSending, Written, write_marker
from penstock.broker.coordinators.partition_journal import PartitionJournal, Place
from penstock.broker.coordinators.transaction_topic import transaction_topic
from penstock.broker.coordinators.verification_requests import VerificationRequests
from penstock.broker.coordinators.writer_stopping import stop_elsewhere
from penstock.broker.partitions.partitions import Partitions
from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, ProducerId, TopicPartition
from penstock.model.limit import TRANSACTIONAL_IDS_PER_STEP
from penstock.model.settings.transactions import TransactionSettings
from penstock.model.topic_name import INTERNAL_TOPICS, TRANSACTION_TOPIC
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.replication.marker import Marker
from penstock.replication.partition import Partition
from penstock.transactions.decide import TransactionRequest
from penstock.transactions.decision_context import DecisionContext, NeedsProducerId
from penstock.transactions.describe import Filters, ListTransactions
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.transactions.marker_senders import MarkerSenders
from penstock.transactions.markers import MarkersWritten, StopWriter, stop_writer
from penstock.transactions.records import TransactionStored, encode
from penstock.transactions.replay import LatestTransactions
from penstock.transactions.shard import TransactionShard
from penstock.wire.messages.list_transactions import ListTransactionsResponse
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

COMMIT_WAIT_MS_MAX = 5_000
REFILLS_MAX = 3
ENLIST_VERSION = 5  # of AddPartitionsToTxn: as brokers ask each other


class TransactionCoordinator:
    """See the module. A node without `links` to others leads all partitions itself."""

    def __init__(
        self,
        *,
        world: World,
        partitions: Partitions,
        controller: ControllerLink,
        producer_ids: ProducerIds,
        write_to_offsets: Callable[[int, Marker], Written | ErrorCode],
        settings: TransactionSettings,
        node_id: NodeId,
        links: Links | None,
        may_be_alone: bool = True,
        lease: BrokerLease | None = None,  # None: nobody else can take over
    ) -> None:
        self._world = world
        self._may_be_alone = may_be_alone
        self._lease = BrokerLease(timeout_ms=None) if lease is None else lease
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._write_to_offsets = write_to_offsets
        self._topic = InternalTopic(controller, TRANSACTION_TOPIC)
        self._settings = settings
        self._image = Image()
        self.marker_senders = MarkerSenders()  # the other nodes that write markers here
        self._node_id = node_id
        self._links = links
        self._sending = MarkerSending(write=self.write_marker, report=self._report)
        self._verifying: VerificationRequests | None = None
        if links is not None:
            self._sending.send_to_others(links, node_id=node_id, clock=world.clock)
            self._verifying = VerificationRequests(links, self._other_coordinator_of)
        self._shards: LedShards[LedTransactions] = LedShards(
            TRANSACTION_TOPIC,
            partitions=partitions,
            clock=world.clock,
            lead=self._lead,
            load=self._load,
            keep_time=self._keep_time_of,
        )

    @property
    def shards(self) -> Iterator[TransactionShard]:
        """Those that serve, for whoever wants to look at them."""
        return (led.shard for led in self._shards if led.host.serves)

    def check(self) -> None:
        self._shards.check()
        self._sending.check()

    def apply(self, delta: Delta, image: Image, settings: TransactionSettings) -> None:
        """Follows a change of the metadata, after the partitions have."""
        self._image = image
        self._settings = settings
        self._topic.follow(image)
        changed = (*delta.topics_deleted, *delta.topics_created, *delta.topics_changed)
        if any(topic.name == TRANSACTION_TOPIC for topic in changed):
            self._shards.follow(image)
            if self._verifying is not None:
                self._verifying.coordinators_moved()
        self._sending.apply(delta, image)

    def close(self) -> None:
        """The node stops: whoever waits is told to look for another coordinator."""
        self._shards.close()

    async def run(self) -> None:
        """Loads shards, keeps their time and sends markers until cancelled."""
        async with TaskGroup() as tasks:
            tasks.start(self._shards.run())
            tasks.start(self._sending.run())
            if self._verifying is not None:
                tasks.start(self._verifying.run())

    async def create_topic(self) -> None:
        """Makes `__transaction_state` if there is none. RequestError when it could not be made."""
        if TRANSACTION_TOPIC not in self._image.topics_by_name:
            wanted = transaction_topic(self._image, self._settings, may_be_alone=self._may_be_alone)
            await self._topic.create(wanted)

    def ask(
        self,
        transactional_id: str,
        request: TransactionRequest,
        *,
        version: int,
        client: Client | None = None,
    ) -> Any | asyncio.Future[Any]:
        """The reply to a request about a transactional id, or a future of it. RequestError, now or
        later, when this broker does not coordinate it, or not yet. `client` is who asked, for the
        log.
        """
        led = self._shards.find(transactional_id)
        reply = self._ask(led, request, version=version, client=client)
        if isinstance(reply, NeedsProducerId | asyncio.Future):
            return asyncio.ensure_future(
                self._ask_until_answered(reply, transactional_id, request, version)
            )
        return reply

    def read(
        self, transactional_id: str, request: TransactionRequest, *, version: int
    ) -> Any | asyncio.Future[Any]:
        """As `ask`, for a question whose answer no write confirms: it is refused, too, when another
        broker may coordinate the id without this one knowing it.
        """
        led = self._shards.find(transactional_id)
        require_lease(self._lease, self._world.clock)
        return self._ask(led, request, version=version)

    def enlist(self, request: Enlist) -> Enlisted | asyncio.Future[Any]:
        """Asks the coordinator of a transactional id, wherever that is, for a broker that leads
        partitions. Returns the reply or a future of it. RequestError as with `ask`.
        """
        transactional_id = request.transactional_id
        try:
            reply: Enlisted | asyncio.Future[Any] = self.ask(
                transactional_id, request, version=ENLIST_VERSION
            )
        except RequestError as refusal:
            if self._verifying is None or refusal.code is not ErrorCode.NOT_COORDINATOR:
                raise
            node_id = self._other_coordinator_of(transactional_id)
            if node_id is None:
                raise
            return self._verifying.ask(node_id, request)
        return reply

    async def stop_writer_elsewhere(self, transactional_id: str) -> bool:
        """Whether the writer of a prepared transaction, which another client has taken over, is
        stopped on all other nodes. RequestError when this broker does not coordinate it any more.
        """
        kept = self._shards.find(transactional_id).shard.transactions.get(transactional_id)
        if self._links is None or kept is None or not kept.is_kept:
            return True
        return await stop_elsewhere(
            self._links, stop_writer(kept), self._image, node_id=self._node_id
        )

    def stop_writer(
        self, name: TopicPartition, producer_id: ProducerId, *, leader_epoch: int | None
    ) -> ErrorCode:
        """Another client has taken over a transaction: a partition that is led here takes no more
        batches that were verified for its writer before.
        """
        partition = self._partitions.find(*name)
        if not isinstance(partition, Partition):
            return partition
        if partition.leader_epoch != leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.guards.clear(producer_id)
        return ErrorCode.NONE

    def write_marker(
        self, name: TopicPartition, marker: Marker, *, leader_epoch: int | None = None
    ) -> Written | ErrorCode:
        """Ends a transaction in a partition that is led here, and in this epoch if one is given."""
        if leader_epoch is not None:
            partition = self._partitions.find(*name)
            if isinstance(partition, Partition) and partition.leader_epoch != leader_epoch:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if name.topic == OFFSETS_TOPIC:
            return self._write_to_offsets(name.partition, marker)
        if name.topic in INTERNAL_TOPICS:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return write_marker(self._partitions, name, marker, clock=self._world.clock)

    async def list_all(self, filters: Filters, *, version: int) -> list[ListTransactionsResponse]:
        """The replies of all shards, some ids at a time. RequestError when one of them cannot tell:
        what it does not list would be taken for not there. One that has ended is another broker's.
        """
        replies = []
        for led in self._shards:
            ids = tuple(led.shard.transactions)
            for start in range(0, max(len(ids), 1), TRANSACTIONAL_IDS_PER_STEP):
                if led.host.stage is Stage.ENDED:
                    break
                require_loaded(led.host)
                # The client asks this broker again: it has not asked for one id.
                require_lease(
                    self._lease, self._world.clock, code=ErrorCode.COORDINATOR_NOT_AVAILABLE
                )
                some = ids[start : start + TRANSACTIONAL_IDS_PER_STEP]
                request = ListTransactions(filters=filters, transactional_ids=some)
                reply = self._ask(led, request, version=version)
                replies.append(await reply if isinstance(reply, asyncio.Future) else reply)
                await asyncio.sleep(0)
        return replies

    async def _ask_until_answered(
        self, reply: Any, transactional_id: str, request: TransactionRequest, version: int
    ) -> Any:
        """Gets producer ids where they are missing; others may take them first, but not again and
        again. That they are missing may be told late: after what was decided before is kept.
        """
        for refills_left in reversed(range(REFILLS_MAX + 1)):
            if isinstance(reply, asyncio.Future):
                reply = await reply
            if not isinstance(reply, NeedsProducerId):
                return reply
            if refills_left:
                await self._producer_ids.refill()
                reply = self._ask(self._shards.find(transactional_id), request, version=version)
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no producer id is to be had")

    def _ask(
        self,
        led: LedTransactions,
        request: TransactionRequest,
        *,
        version: int,
        client: Client | None = None,
    ) -> Any | asyncio.Future[Any]:
        context = self._situation()
        try:
            return led.ask(
                request,
                context,
                version=version,
                deadline_ms=self._deadline_ms(context),
                client=client,
            )
        finally:
            self._sending.flush()
            self._shards.wake_for(led)

    def _other_coordinator_of(self, transactional_id: str) -> NodeId | None:
        """As this node's image says; None when there is none, or it is this node."""
        topic = self._image.topics_by_name.get(TRANSACTION_TOPIC)
        if topic is None:
            return None
        index = partition_of(transactional_id, partition_count=len(topic.partitions))
        leader = topic.partitions[index].leader
        return None if leader == self._node_id else leader

    def _report(self, led: LedTransactions, written: MarkersWritten) -> bool:
        context = self._situation()
        return led.report(written, context, deadline_ms=self._deadline_ms(context))

    def _situation(self) -> DecisionContext:
        clock = self._world.clock
        return DecisionContext(
            settings=self._settings,
            now_ms=clock.now_ms(),
            monotonic_ms=clock.monotonic_ms(),
            fresh_producer_id=self._producer_ids.take,
        )

    def _deadline_ms(self, context: DecisionContext) -> int:
        return context.monotonic_ms + COMMIT_WAIT_MS_MAX

    def _lead(self, partition: Partition) -> LedTransactions:
        journal: PartitionJournal[TransactionStored] = PartitionJournal(
            partition,
            transaction_batch,
            clock=self._world.clock,
            append_failed=self._partitions.append_failed,
            want_sync=self._partitions.want_sync,
        )
        led = LedTransactions(
            partition,
            journal,
            send=self._sending.send,
            stop=self._stop_writer,
            has_opened=self._look_again,
        )
        if partition.log.end_offset == partition.log.start_offset:
            led.host.replay((), next_offset=partition.log.end_offset)
            led.loaded(self._situation())
        return led

    def _stop_writer(self, stop: StopWriter) -> None:
        """In the partitions of this node; `stop_writer_elsewhere` in the others."""
        for name in stop.partitions:
            partition = self._partitions.find(*name)
            if isinstance(partition, Partition):
                partition.guards.clear(stop.producer_id)

    def _look_again(self) -> None:
        self._shards.look_again()

    async def _load(self, led: LedTransactions) -> None:
        await load(led, LatestTransactions(), self._situation, self._world.clock)

    def _keep_time_of(self, led: LedTransactions) -> bool:
        context = self._situation()
        did = led.keep_time(context, deadline_ms=self._deadline_ms(context))
        if led.is_resuming:
            self._shards.look_again()
        self._sending.flush()
        return did


def transaction_batch(records: Sequence[TransactionStored], place: Place) -> bytearray:
    """How a decision about a transaction is written."""
    return build_batch(
        [Record(*encode(record), timestamp_ms=place.now_ms) for record in records],
        base_offset=place.base_offset,
        leader_epoch=place.leader_epoch,
    )
