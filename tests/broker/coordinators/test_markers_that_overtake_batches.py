"""A batch whose transaction ends while it is being verified is not written.

The coordinator's journal waits for a sync that the test holds up, so that a verification takes as
long as the test wants it to. Syncs go in rounds: one that is under way for another topic makes all
that is decided meanwhile be known in one and the same step.
"""

import contextlib
import shutil
from collections.abc import Awaitable, Coroutine, Iterator
from pathlib import Path

import pytest

from penstock.broker.api.produce import handle
from penstock.broker.request.context import RequestContext
from penstock.model.error import ErrorCode
from penstock.node.build import OpenNode
from penstock.wire.api import ApiKey
from penstock.wire.header import RequestHeader
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.produce import ProduceRequest
from penstock.world.errors import NetworkError
from penstock.world.ports import Address
from penstock.world.tasks import TaskGroup
from rig.data_requests import produce_request
from rig.produced import produced
from rig.raw_producer import Pipeline, RawProducer, latest, marker_request, open_offsets
from rig.raw_serving import until
from rig.running_node import RunningNode, running_node
from rig.watched_disk import WatchedDisk

TOPIC = "orders"
SYNCED = "synced"
STATE = "__transaction_state"
OK = ErrorCode.NONE
REFUSED = [(ErrorCode.INVALID_TXN_STATE, -1)]
TOPIC_RESOURCE = 2
SET = 0


class SlowCoordinator:
    """A node that answers no question about transactions until `let_go`, once it was told to."""

    def __init__(self, node: RunningNode, disk: WatchedDisk, data: Path) -> None:
        self.bootstrap = node.bootstrap
        self.data = data
        self._node = node
        self._disk = disk
        self._elsewhere = Pipeline(node.bootstrap)

    def close(self) -> None:
        self.let_go()
        self._elsewhere.close()

    def hold(self) -> None:
        self._node.run(self._set(held=True))
        syncs = self._disk.syncs
        request = produce_request(SYNCED, produced(), timeout_ms=60_000)
        self._elsewhere.send(request, version=9)
        self._node.run(until(lambda: self._disk.syncs > syncs))

    def let_go(self) -> None:
        self._node.run(self._set(held=False))

    def decisions_bytes(self) -> int:
        """How much the coordinator has decided, in bytes of its journal."""
        return sum(path.stat().st_size for path in self.data.glob(f"**/{STATE}-*/*.log"))

    def await_decision(self, *, after_bytes: int) -> int:
        """Until it has decided more than that, and waits for the sync."""
        self._node.run(until(lambda: self.decisions_bytes() > after_bytes))
        return self.decisions_bytes()

    def fail_at_once(self, request: ProduceRequest) -> None:
        """The request is taken, and whatever waits on its connection fails in the same step."""
        self._node.run(self._fail_at_once(request))

    async def _fail_at_once(self, request: ProduceRequest) -> None:
        inside = self._node.node._running
        assert isinstance(inside, OpenNode)
        assert inside.broker is not None
        services = inside.broker.services
        context = RequestContext(
            header=RequestHeader(ApiKey.PRODUCE, 12, 1, "raw"),
            listener="PLAINTEXT",
            peer=Address(host="127.0.0.1", port=1),
            received_ms=services.world.clock.monotonic_ms(),
        )
        with contextlib.suppress(NetworkError):
            async with TaskGroup() as waiting:
                answer = handle(services, request, context)
                assert isinstance(answer, Coroutine)
                waiting.start(_wait_for(answer))
                waiting.fail(NetworkError("the peer has gone"))
        answer.close()  # it has never begun

    async def _set(self, *, held: bool) -> None:
        if held:
            self._disk.hold()
        else:
            self._disk.let_go()


async def _wait_for(answer: Awaitable[object]) -> None:
    await answer


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[SlowCoordinator]:
    disk = WatchedDisk()
    data = tmp_path / "data"
    with running_node(data, disk=disk) as node:
        pipeline = Pipeline(node.bootstrap)
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in (TOPIC, SYNCED)
        ]
        topics[1].configs = [CreatableTopicConfig(name="penstock.ack.fsync", value="true")]
        created = pipeline.ask(CreateTopicsRequest(topics=topics), version=7).topics
        assert [topic.error_code for topic in created] == [OK, OK]
        pipeline.close()
        slow = SlowCoordinator(node, disk, data)
        yield slow
        slow.close()


@pytest.fixture
def producer(coordinator: SlowCoordinator) -> Iterator[RawProducer]:
    """It has its identity; what the coordinator decides from now on waits for a sync."""
    producer = RawProducer(coordinator.bootstrap)
    producer.init()
    change = AlterableConfig(name="penstock.ack.fsync", config_operation=SET, value="true")
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=STATE, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    assert producer.pipeline.ask(request, version=1).responses[0].error_code == OK
    yield producer
    producer.pipeline.close()


@pytest.fixture
def other(coordinator: SlowCoordinator) -> Iterator[Pipeline]:
    pipeline = Pipeline(coordinator.bootstrap)
    yield pipeline
    pipeline.close()


def begin_to_verify(coordinator: SlowCoordinator, producer: RawProducer) -> int:
    """Sends the first batch of a transaction, which the coordinator keeps waiting."""
    before = coordinator.decisions_bytes()
    coordinator.hold()
    producer.pipeline.send(producer.produce_request(TOPIC), version=12)
    return coordinator.await_decision(after_bytes=before)


def test_a_batch_is_written_once_it_is_verified(
    coordinator: SlowCoordinator, producer: RawProducer, other: Pipeline
) -> None:
    begin_to_verify(coordinator, producer)
    assert latest(other, TOPIC, committed=False) == 0
    coordinator.let_go()
    assert producer.produced() == [(OK, 0)]
    assert producer.end() is OK
    assert latest(other, TOPIC, committed=True) == 3


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_verified_together_with_the_end_of_its_transaction_is_part_of_it_or_refused(
    coordinator: SlowCoordinator, producer: RawProducer, other: Pipeline, committed: bool
) -> None:
    decided = begin_to_verify(coordinator, producer)
    other.send(producer.end_request(committed=committed), version=5)
    coordinator.await_decision(after_bytes=decided)
    coordinator.let_go()
    outcome = producer.produced()
    assert outcome in (REFUSED, [(OK, 0)])
    assert other.reply().error_code == OK
    assert open_offsets(other, TOPIC) == {}
    end = 1 if outcome == REFUSED else 3  # the marker is there in any case
    assert latest(other, TOPIC, committed=True) == latest(other, TOPIC, committed=False) == end


def test_a_marker_from_elsewhere_overtakes_a_batch(
    coordinator: SlowCoordinator, producer: RawProducer, other: Pipeline
) -> None:
    begin_to_verify(coordinator, producer)
    marker = marker_request(producer.producer_id, producer.epoch, (TOPIC, [0]))
    other.ask(marker, version=1)
    coordinator.let_go()
    assert producer.produced() == REFUSED
    assert open_offsets(other, TOPIC) == {}
    # What was verified after the marker counts.
    assert producer.produce(TOPIC) == [(OK, 1)]
    assert producer.end() is OK
    assert latest(other, TOPIC, committed=True) == 4


def test_batches_that_are_verified_together_are_written_in_their_order(
    coordinator: SlowCoordinator, producer: RawProducer, other: Pipeline
) -> None:
    begin_to_verify(coordinator, producer)
    other.send(producer.produce_request(TOPIC), version=12)  # a retry, by another connection
    for sequence in (2, 4):
        producer.pipeline.send(producer.produce_request(TOPIC, sequence=sequence), version=12)
    coordinator.let_go()
    assert [producer.produced() for _ in range(3)] == [[(OK, 0)], [(OK, 2)], [(OK, 4)]]
    [again] = other.reply().responses[0].partition_responses
    assert (again.error_code, again.base_offset) == (OK, 0)
    assert producer.end() is OK
    assert latest(other, TOPIC, committed=True) == 7


def test_a_request_that_fails_with_its_connection_before_it_waits_keeps_no_other_waiting(
    coordinator: SlowCoordinator, producer: RawProducer, other: Pipeline
) -> None:
    coordinator.hold()
    coordinator.fail_at_once(producer.produce_request(TOPIC))
    producer.pipeline.send(producer.produce_request(TOPIC), version=12)
    coordinator.let_go()
    assert producer.produced() == [(OK, 0)]
    assert producer.end() is OK
    assert latest(other, TOPIC, committed=True) == 3


def test_a_batch_waits_for_those_before_it_no_longer_than_its_time_out(
    coordinator: SlowCoordinator, producer: RawProducer, other: Pipeline
) -> None:
    begin_to_verify(coordinator, producer)
    hasty = producer.produce_request(TOPIC, sequence=2)
    hasty.timeout_ms = 1
    [refused] = other.ask(hasty, version=12).responses[0].partition_responses
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.let_go()  # before the first one is given up too
    assert producer.produced() == [(OK, 0)]
    assert producer.produce(TOPIC, sequence=2) == [(OK, 2)]
    assert producer.end() is OK
    assert latest(other, TOPIC, committed=True) == 5


def test_a_kill_between_the_verification_and_the_append_leaves_nothing_open(
    coordinator: SlowCoordinator, producer: RawProducer, tmp_path: Path
) -> None:
    begin_to_verify(coordinator, producer)
    left = tmp_path / "left by a kill"
    shutil.copytree(coordinator.data, left)
    coordinator.let_go()
    with running_node(left) as again:
        successor = RawProducer(again.bootstrap)
        successor.init()
        assert successor.producer_id == producer.producer_id
        assert open_offsets(successor.pipeline, TOPIC) == {}
        end = latest(successor.pipeline, TOPIC, committed=False)
        assert latest(successor.pipeline, TOPIC, committed=True) == end
        late = producer.epoch
        assert successor.produce(TOPIC, epoch=late) == [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]
        assert successor.produce(TOPIC) == [(OK, end)]
        assert successor.end() is OK
        successor.pipeline.close()
