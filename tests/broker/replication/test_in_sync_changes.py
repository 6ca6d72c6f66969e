"""Leaders ask the controller to change in-sync sets; the test answers as the controller would."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.replication.in_sync_changes import InSyncChanges
from penstock.metadata.image.topic import UNASSIGNED_DIRECTORY, LeaderRecovery
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.replication import ReplicationSettings
from penstock.replication.partition import Partition
from penstock.wire.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from penstock.world.tasks import TaskGroup
from rig.leader_node import until
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker

REPLICAS = (NODE, OTHER)
OWN_EPOCH = 33
FOLLOWER_EPOCH = 1  # as it is registered in the rig
WAIT_S_MAX = 120
WELL, FAILED = b"w" * 16, b"f" * 16  # log directories


class Controller:
    """Makes each change, once as many requests were refused as `refusals` has codes."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.refusals: list[RequestError] = []
        self.partition_codes: list[ErrorCode] = []
        self.held: asyncio.Future[None] | None = None

    async def ask(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        if self.held is not None:
            await self.held
        if self.refusals:
            raise self.refusals.pop(0)
        code = self.partition_codes.pop(0) if self.partition_codes else ErrorCode.NONE
        return AlterPartitionResponse(
            topics=[
                AlteredTopic(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlteredPartition(
                            partition_index=one.partition_index,
                            error_code=code,
                            leader_id=NODE,
                            leader_epoch=one.leader_epoch,
                            isr=[member.broker_id for member in one.new_isr_with_epochs],
                            partition_epoch=one.partition_epoch + 1,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


Scenario = Callable[[Broker, InSyncChanges, Controller], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    async def work(scenario: Scenario, lag_ms_max: int) -> None:
        broker, controller = Broker(tmp_path), Controller()
        changes = InSyncChanges(
            ask=controller.ask,
            node_id=NODE,
            broker_epoch=lambda: OWN_EPOCH,
            image=lambda: broker.services.image,
            partitions=broker.partitions,
            settings=ReplicationSettings(replica_lag_time_max_ms=lag_ms_max),
            clock=broker.world.clock,
        )
        async with TaskGroup() as group:
            group.start(changes.run())
            await scenario(broker, changes, controller)
            group.cancel()
        broker.close()

    def run_scenario(scenario: Scenario, *, lag_ms_max: int = 3_600_000) -> None:
        asyncio.run(asyncio.wait_for(work(scenario, lag_ms_max), WAIT_S_MAX))

    return run_scenario


def lead(broker: Broker, *, partitions: int = 1, in_sync: tuple[NodeId, ...] = (NODE,)) -> None:
    broker.create_topic("t", partitions, replicas=REPLICAS)
    topic = broker.services.image.topics_by_name["t"]
    changed = tuple(replace(one, isr=in_sync, partition_epoch=1) for one in topic.partitions)
    broker.change_topic(replace(topic, partitions=changed))


def catches_up(broker: Broker, partition: Partition, *, broker_epoch: int = FOLLOWER_EPOCH) -> bool:
    return partition.follower_fetched(
        OTHER,
        offset=partition.log.end_offset,
        broker_epoch=broker_epoch,
        now_ms=broker.world.clock.monotonic_ms(),
    )


def members(request: AlterPartitionRequest) -> list[tuple[int, int]]:
    [topic] = request.topics
    [asked] = topic.partitions
    return [(one.broker_id, one.broker_epoch) for one in asked.new_isr_with_epochs]


def test_a_follower_that_has_caught_up_is_added(run: Callable[..., None]) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker)
        partition = broker.partition("t")
        assert catches_up(broker, partition)
        changes.want(partition)
        await until(lambda: partition.in_sync_count == 2)
        [request] = controller.requests
        assert (request.broker_id, request.broker_epoch) == (NODE, OWN_EPOCH)
        assert members(request) == [(NODE, OWN_EPOCH), (OTHER, FOLLOWER_EPOCH)]
        assert partition.partition_epoch == 2

    run(scenario)


def test_a_follower_of_another_incarnation_or_fenced_is_not_added(
    run: Callable[..., None],
) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker, partitions=2)
        image = broker.services.image
        first, second = broker.partition("t"), broker.partition("t", 1)
        catches_up(broker, first, broker_epoch=FOLLOWER_EPOCH - 1)
        changes.want(first)
        fenced = replace(image.brokers[OTHER], fenced=True)
        broker.services.image = replace(image, brokers={**image.brokers, OTHER: fenced})
        catches_up(broker, second)
        changes.want(second)
        await asyncio.sleep(0)
        broker.services.image = image
        changes.brokers_changed()
        await until(lambda: second.in_sync_count == 2)
        assert first.in_sync_count == 1
        assert len(controller.requests) == 1

    run(scenario)


def test_a_follower_that_has_lost_its_log_directory_is_not_added(run: Callable[..., None]) -> None:
    """It goes on as the same process, so what it had fetched before still looks well."""

    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker, partitions=2)
        image = broker.services.image
        other = replace(image.brokers[OTHER], directories=(WELL,))
        broker.services.image = replace(image, brokers={**image.brokers, OTHER: other})
        topic = image.topics_by_name["t"]
        placed = [
            replace(partition, directories=(UNASSIGNED_DIRECTORY, directory))
            for partition, directory in zip(topic.partitions, (FAILED, WELL), strict=True)
        ]
        broker.change_topic(replace(topic, partitions=tuple(placed)))
        for index in range(2):
            catches_up(broker, broker.partition("t", index))
        changes.brokers_changed()
        await until(lambda: broker.partition("t", 1).in_sync_count == 2)
        assert broker.partition("t").in_sync_count == 1
        assert len(controller.requests) == 1

    run(scenario)


def test_what_gathers_while_a_request_is_outstanding_goes_out_together(
    run: Callable[..., None],
) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker, partitions=20)
        controller.held = asyncio.get_running_loop().create_future()
        for index in range(20):
            partition = broker.partition("t", index)
            catches_up(broker, partition)
            changes.want(partition)
            await asyncio.sleep(0)
        await until(lambda: len(controller.requests) == 1)
        controller.held.set_result(None)
        await until(lambda: all(one.in_sync_count == 2 for one in broker.partitions.led()))
        assert len(controller.requests) == 2

    run(scenario)


def test_a_follower_that_is_silent_is_removed(run: Callable[..., None]) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker, in_sync=REPLICAS)
        partition = broker.partition("t")
        partition.append(produced(), all_acks=False, now_ms=NOW_MS)
        await until(lambda: len(controller.requests) == 1)
        assert members(controller.requests[0]) == [(NODE, OWN_EPOCH)]
        topic = broker.services.image.topics_by_name["t"]
        alone = replace(topic.partitions[0], isr=(NODE,), partition_epoch=2)
        broker.change_topic(replace(topic, partitions=(alone,)))
        assert (partition.in_sync_count, partition.high_watermark) == (1, 1)

    run(scenario, lag_ms_max=100)


def test_that_a_follower_was_removed_is_logged(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """The metadata tells of it before the reply does."""

    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker, in_sync=REPLICAS)
        controller.held = asyncio.get_running_loop().create_future()
        broker.partition("t").append(produced(), all_acks=False, now_ms=NOW_MS)
        await until(lambda: len(controller.requests) == 1)
        topic = broker.services.image.topics_by_name["t"]
        alone = replace(topic.partitions[0], isr=(NODE,), partition_epoch=2)
        broker.change_topic(replace(topic, partitions=(alone,)))
        controller.held.set_result(None)
        await until(lambda: f"partition=t-0 in_sync={NODE} shrunk=true" in caplog.messages)

    run(scenario, lag_ms_max=100)


def test_a_follower_that_the_controller_does_not_take_yet_is_asked_for_again(
    run: Callable[..., None],
) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker)
        controller.partition_codes = [ErrorCode.INELIGIBLE_REPLICA]
        partition = broker.partition("t")
        catches_up(broker, partition)
        changes.want(partition)
        await until(lambda: partition.in_sync_count == 2)
        assert len(controller.requests) == 2

    run(scenario)


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH]
)
def test_what_the_controller_may_not_have_heard_is_asked_again(
    run: Callable[..., None], code: ErrorCode
) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker)
        controller.refusals = [RequestError(code), RequestError(code)]
        partition = broker.partition("t")
        catches_up(broker, partition)
        changes.want(partition)
        await until(lambda: partition.in_sync_count == 2)
        assert len(controller.requests) == 3

    run(scenario)


def test_a_change_of_an_older_partition_epoch_waits_for_the_metadata(
    run: Callable[..., None],
) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker)
        controller.partition_codes = [ErrorCode.INVALID_UPDATE_VERSION]
        partition = broker.partition("t")
        catches_up(broker, partition)
        changes.want(partition)
        await until(lambda: len(controller.requests) == 1)
        topic = broker.services.image.topics_by_name["t"]
        newer = replace(topic.partitions[0], partition_epoch=5)
        broker.change_topic(replace(topic, partitions=(newer,)))
        catches_up(broker, partition)
        changes.want(partition)
        await until(lambda: partition.in_sync_count == 2)
        assert partition.partition_epoch == 6

    run(scenario)


def test_a_change_that_the_metadata_makes_void_is_asked_for_again(
    run: Callable[..., None],
) -> None:
    """Also for a follower that waits for records, and says nothing more."""

    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker)
        controller.partition_codes = [ErrorCode.INVALID_UPDATE_VERSION]
        partition = broker.partition("t")
        catches_up(broker, partition)
        changes.want(partition)
        await until(lambda: len(controller.requests) == 1)
        topic = broker.services.image.topics_by_name["t"]
        newer = replace(topic.partitions[0], partition_epoch=5)
        broker.change_topic(replace(topic, partitions=(newer,)))
        changes.led(broker.applied.led)
        await until(lambda: partition.in_sync_count == 2)

    run(scenario)


def test_a_leader_that_was_elected_uncleanly_recovers_before_others_join(
    run: Callable[..., None],
) -> None:
    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        broker.create_topic("t", replicas=REPLICAS, leader=OTHER)
        topic = broker.services.image.topics_by_name["t"]
        elected = replace(
            topic.partitions[0],
            leader=NODE,
            isr=(NODE,),
            leader_epoch=type(topic.partitions[0].leader_epoch)(1),
            partition_epoch=1,
            leader_recovery_state=LeaderRecovery.RECOVERING,
        )
        broker.change_topic(replace(topic, partitions=(elected,)))
        changes.led(broker.applied.led)
        partition = broker.partition("t")
        catches_up(broker, partition)  # and waits for records since
        await until(lambda: partition.in_sync_count == 2)
        assert members(controller.requests[0]) == [(NODE, OWN_EPOCH)]
        assert not partition.is_recovering

    run(scenario)


def test_a_partition_that_is_given_up_before_the_request_leaves_is_not_in_it(
    run: Callable[..., None],
) -> None:
    """It may be led again at once: what was noted in the epoch before says nothing any more."""

    async def scenario(broker: Broker, changes: InSyncChanges, controller: Controller) -> None:
        lead(broker, partitions=ENTRIES_PER_TURN + 1)
        partitions = broker.partitions.led()
        for partition in partitions:
            assert catches_up(broker, partition)
            changes.want(partition)
        while partitions[0].followers.pending is None:  # noqa: ASYNC110 - the first turn
            await asyncio.sleep(0)
        assert controller.requests == []
        topic = broker.services.image.topics_by_name["t"]
        for leader in (OTHER, NODE):
            first = topic.partitions[0]
            first = replace(
                first,
                leader=leader,
                leader_epoch=LeaderEpoch(first.leader_epoch + 1),
                partition_epoch=first.partition_epoch + 1,
            )
            topic = replace(topic, partitions=(first, *topic.partitions[1:]))
            broker.change_topic(topic)
        await until(lambda: len(controller.requests) > 0)
        [asked] = controller.requests[0].topics
        indexes = [one.partition_index for one in asked.partitions]
        assert indexes == list(range(1, ENTRIES_PER_TURN + 1))

    run(scenario)
