"""Changes of in-sync sets: what leaders here ask of the controller (AlterPartition, KIP-497).

`want` is called when a follower has caught up, or when a leader has to report that its log is
recovered. A follower that has caught up and waits for records says nothing more, so partitions that
lack some are looked at when a broker has been unfenced, and after each change; a round now and then
looks for followers that lag. What to ask for is decided by the partition (`replication/followers`).
One request is outstanding at a time, for all partitions that have something to ask: what gathers
meanwhile goes out in the next one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from penstock.broker.partitions.partitions import Partitions
from penstock.client.network.errors import error_code
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, TopicId
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.replication import ReplicationSettings
from penstock.replication.followers import InSyncChange
from penstock.replication.partition import Partition
from penstock.wire.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from penstock.world.ports import Clock
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

RETRY_WAIT_MS_MIN = 50
RETRY_WAIT_MS_MAX = 1_000
ROUND_MS_MIN = 50
PARTITIONS_PER_REQUEST_MAX = 5_000
RECOVERED = 0  # in AlterPartition
# The controller knows a broker to be fenced, or another change came first: this passes.
NOT_YET = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})

Asked = Mapping[Partition, InSyncChange]


class InSyncChanges:
    """See the module. `ask` is answered by the active controller, or raises RequestError;
    `broker_epoch` is this broker's own; `image` what it knows of the others.
    """

    def __init__(
        self,
        *,
        ask: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        image: Callable[[], Image],
        partitions: Partitions,
        settings: ReplicationSettings,
        clock: Clock,
    ) -> None:
        self._ask_controller = ask
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._partitions = partitions
        self._lag_ms_max = settings.replica_lag_time_max_ms
        self._clock = clock
        self._wanted: dict[Partition, None] = {}
        self._any_wanted = asyncio.Event()
        self._failures = 0  # one after the other

    def want(self, partition: Partition) -> None:
        """The partition may have a change to ask for."""
        self._wanted[partition] = None
        self._any_wanted.set()

    def led(self, partitions: Iterable[Partition]) -> None:
        """This broker has begun to lead them, or leads them in another epoch, or what it asked for
        is void because the controller has changed the partition otherwise.
        """
        for partition in partitions:
            if partition.is_recovering or lacks_some(partition):
                self.want(partition)

    def brokers_changed(self) -> None:
        """One may have been unfenced, whose replicas can join again."""
        for partition in self._partitions.led():
            if lacks_some(partition):
                self.want(partition)

    async def run(self) -> None:
        """Until cancelled."""
        async with TaskGroup() as tasks:
            tasks.start(self._keep_asking())
            tasks.start(self._keep_looking())

    async def _keep_looking(self) -> None:
        """Rounds over what this broker leads: a follower that is silent calls nobody."""
        while True:
            await asyncio.sleep(max(self._lag_ms_max // 2, ROUND_MS_MIN) / 1000)
            for partition in self._partitions.led():
                if len(partition.followers.replicas) > 1:
                    self.want(partition)

    async def _keep_asking(self) -> None:
        while True:
            await self._any_wanted.wait()
            asked = await self._gather()
            if asked:
                await self._ask(asked)

    async def _gather(self) -> Asked:
        """What is to be asked for now, looked at by turns."""
        asked: dict[Partition, InSyncChange] = {}
        looked_at = 0
        while self._wanted and len(asked) < PARTITIONS_PER_REQUEST_MAX:
            partition = next(iter(self._wanted))
            del self._wanted[partition]
            if partition.has_ended:
                continue
            change = partition.in_sync_change(
                now_ms=self._clock.monotonic_ms(),
                lag_ms_max=self._lag_ms_max,
                can_join=partial(self._can_join, partition),
            )
            if change is not None:
                asked[partition] = change
            looked_at += 1
            if looked_at % ENTRIES_PER_TURN == 0:
                await asyncio.sleep(0)
        if not self._wanted:
            self._any_wanted.clear()
        # Between two turns a partition may have been given up, and be led again in another epoch.
        return {one: change for one, change in asked.items() if not one.has_ended}

    def _can_join(self, partition: Partition, node: NodeId, broker_epoch: int) -> bool:
        image = self._image()
        broker = image.brokers.get(node)
        topic = image.topics_by_id.get(partition.topic_id)
        if broker is None or topic is None or not broker.is_usable or broker.epoch != broker_epoch:
            return False
        placed = topic.partitions[partition.name.partition]
        # One whose log directory has failed goes on as the same process, without that log.
        return node in placed.replicas and broker.has_directory(placed.directory(node))

    async def _ask(self, asked: Asked) -> None:
        answers: dict[tuple[TopicId, int], AlteredPartition] = {}
        code = ErrorCode.UNKNOWN_SERVER_ERROR  # of what the controller leaves out
        # As a rule the metadata tells the leader of the change before the reply does.
        before = {partition: partition.in_sync_count for partition in asked}
        try:
            response = await self._ask_controller(self._request(asked))
        except RequestError as refusal:
            code = refusal.code
            if self._failures == 0:
                logger.warning("in_sync changes=%d asked_again=true reason=%s", len(asked), refusal)
        else:
            for topic in response.topics:
                for answer in topic.partitions:
                    answers[TopicId(topic.topic_id), answer.partition_index] = answer
        self._failures = 0 if answers else self._failures + 1
        for partition, change in asked.items():
            found = answers.get((partition.topic_id, partition.name.partition))
            if found is None:
                self._refused(partition, change, code)
            elif found.error_code != ErrorCode.NONE:
                self._refused(partition, change, error_code(found.error_code))
            else:
                self._confirmed(partition, change, found)
                if len(found.isr) < before[partition]:
                    logger.warning(
                        "partition=%s in_sync=%s shrunk=true",
                        partition.name, ",".join(map(str, found.isr)),
                    )  # fmt: skip

    def _confirmed(
        self, partition: Partition, change: InSyncChange, answer: AlteredPartition
    ) -> None:
        partition.in_sync_confirmed(
            change,
            leader_epoch=LeaderEpoch(answer.leader_epoch),
            partition_epoch=answer.partition_epoch,
            in_sync=[NodeId(node) for node in answer.isr],
            recovered=answer.leader_recovery_state == RECOVERED,
            now_ms=self._clock.monotonic_ms(),
        )
        if lacks_some(partition):
            self.want(partition)  # others may have caught up, or may join a leader that recovered

    def _refused(self, partition: Partition, change: InSyncChange, code: ErrorCode) -> None:
        if partition.in_sync_refused(change, code) or code in NOT_YET:
            wait_ms = min(RETRY_WAIT_MS_MIN << min(self._failures, 10), RETRY_WAIT_MS_MAX)
            asyncio.get_running_loop().call_later(wait_ms / 1000, self.want, partition)

    def _request(self, asked: Asked) -> AlterPartitionRequest:
        topics: dict[TopicId, AlterPartitionTopic] = {}
        own_epoch = self._broker_epoch()
        for partition, change in asked.items():
            topic = topics.setdefault(
                partition.topic_id, AlterPartitionTopic(topic_id=partition.topic_id)
            )
            topic.partitions.append(
                AlterPartitionData(
                    partition_index=partition.name.partition,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(
                            broker_id=node,
                            broker_epoch=own_epoch if node == self._node_id else epoch,
                        )
                        for node, epoch in change.members
                    ],
                    leader_recovery_state=RECOVERED,
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=own_epoch, topics=list(topics.values())
        )


def lacks_some(partition: Partition) -> bool:
    """Whether not all replicas are in sync."""
    return partition.in_sync_count < len(partition.followers.replicas)
