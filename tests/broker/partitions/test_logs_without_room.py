"""Partitions whose logs could not be made while the disk was full are served once there is room,
though nothing about their topics changes any more.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.broker.partitions.directory_assignments import DirectoryAssignments
from penstock.broker.partitions.reopening import Reopening
from penstock.metadata.image.image import Delta
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.replication.follower import Follower
from penstock.replication.partition import Partition
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from rig.data_requests import produce
from rig.memory_disk import MemoryDisk
from rig.produced import produced
from rig.services import NODE, OTHER, Broker

CALLS_MAX = 200  # more than it takes to make two logs


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def broker(disk: MemoryDisk) -> Broker:
    return on(disk)


def on(disk: MemoryDisk, directories: tuple[str, ...] = ("data",)) -> Broker:
    """A broker that has started, and has no topics."""
    broker = Broker(Path("/"), disk=disk, directories=directories)
    broker._apply(Delta())
    return broker


def reopening(broker: Broker) -> Reopening:
    return Reopening(partitions=broker.partitions, publish=broker._apply)


def codes(broker: Broker, topic: str, indexes: Iterable[int]) -> list[ErrorCode]:
    found = [broker.partitions.find(topic, index) for index in indexes]
    return [ErrorCode.NONE if isinstance(one, Partition) else one for one in found]


def test_a_new_partition_is_led_once_there_is_room(broker: Broker, disk: MemoryDisk) -> None:
    disk.faults.full = True
    broker.create_topic("t", 2, config={"retention.ms": "5"})
    assert codes(broker, "t", (0, 1)) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert not reopening(broker).try_again()
    assert codes(broker, "t", (0, 1)) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    disk.faults.full = False
    assert reopening(broker).try_again()
    assert broker.applied.led == [broker.partition("t", 0), broker.partition("t", 1)]
    assert broker.partition("t").settings.retention_ms == 5
    assert produce(broker, "t", produced(3)).base_offset == 0


def test_a_new_partition_is_followed_once_there_is_room(broker: Broker, disk: MemoryDisk) -> None:
    disk.faults.full = True
    broker.create_topic("t", leader=OTHER, replicas=(NODE, OTHER))
    assert broker.applied.followed == []
    disk.faults.full = False
    assert reopening(broker).try_again()
    [follower] = broker.applied.followed
    assert isinstance(follower, Follower)
    assert (follower.name, follower.leader) == (TopicPartition("t", 0), OTHER)


def test_a_broker_looks_for_room_by_itself(broker: Broker, disk: MemoryDisk) -> None:
    """The wait is real, and short: it is the first one."""
    disk.faults.full = True
    broker.create_topic("t")
    disk.faults.full = False
    led = asyncio.Event()

    async def scenario() -> None:
        def publish(delta: Delta) -> None:
            broker._apply(delta)
            led.set()

        keeping = asyncio.create_task(
            Reopening(partitions=broker.partitions, publish=publish).keep()
        )
        async with asyncio.timeout(60):
            await led.wait()
        keeping.cancel()

    asyncio.run(scenario())
    assert codes(broker, "t", (0,)) == [ErrorCode.NONE]


def test_logs_are_made_wherever_the_room_ran_out() -> None:
    """After a restart too: nothing half made is left."""
    refused = 0
    for fail_at in range(CALLS_MAX):
        disk = MemoryDisk()
        broker = on(disk)
        disk.faults.fail_at = disk.faults.calls + fail_at
        broker.create_topic("t", 2)
        if disk.faults.calls <= disk.faults.fail_at:
            break
        refused += codes(broker, "t", (0, 1)) != [ErrorCode.NONE] * 2
        assert reopening(broker).try_again()
        for index in (0, 1):
            assert produce(broker, "t", produced(3), index=index).base_offset == 0
        broker.close()
        again = Broker(Path("/"), disk=disk)
        again.create_topic("t", 2)
        assert [again.partition("t", index).log.end_offset for index in (0, 1)] == [3, 3]
    else:
        pytest.fail("every call was one of those that make logs")
    assert refused > 0


def test_what_has_room_stays_as_it_is(broker: Broker, disk: MemoryDisk) -> None:
    broker.create_topic("t")
    known = broker.partition("t")
    topic = broker.services.image.topics_by_name["t"]
    disk.faults.full = True
    broker.change_topic(replace(topic, partitions=topic.partitions * 2))
    disk.faults.full = False
    assert reopening(broker).try_again()
    assert broker.partition("t", 0) is known
    assert broker.applied.led == [broker.partition("t", 1)]


def test_a_topic_that_is_deleted_meanwhile_is_not_made(broker: Broker, disk: MemoryDisk) -> None:
    disk.faults.full = True
    broker.create_topic("t")
    broker.delete_topic("t")
    disk.faults.full = False
    assert broker.partitions.without_room() == ()
    assert reopening(broker).try_again()
    assert broker.directory.partitions_found() == {}


def test_a_log_that_is_damaged_is_not_scanned_again_and_again(
    broker: Broker, disk: MemoryDisk
) -> None:
    """Room is not what it lacks."""
    disk.make_directory("/data/t-0")
    disk.write_whole("/data/t-0/partition.metadata", b"version: 9")
    broker.create_topic("t")
    assert codes(broker, "t", (0,)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert broker.partitions.without_room() == ()


def test_a_replica_is_made_where_it_was_wanted_once_there_is_room(disk: MemoryDisk) -> None:
    broker = on(disk, ("a", "b"))
    broker.create_topic("t", leader=OTHER, replicas=(OTHER,))
    name = TopicPartition("t", 0)
    assert broker.moves.move(name, "/b") is ErrorCode.REPLICA_NOT_AVAILABLE
    topic = broker.services.image.topics_by_name["t"]
    disk.faults.full = True
    partition = replace(topic.partitions[0], replicas=(OTHER, NODE))
    broker.change_topic(replace(topic, partitions=(partition,)))
    assert broker.assignments.wanted_of(name) is None
    disk.faults.full = False
    assert reopening(broker).try_again()
    assert broker.directories.home_of(name) == "/b"
    assert broker.assignments.wanted_of(name) == b"b" * 16


def test_nothing_is_opened_by_a_node_that_stops(broker: Broker, disk: MemoryDisk) -> None:
    disk.faults.full = True
    broker.create_topic("t")
    disk.faults.full = False
    broker.partitions.close()
    assert reopening(broker).try_again()
    assert broker.directory.partitions_found() == {}


def test_lack_of_room_and_its_end_are_told_once(
    broker: Broker, disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    disk.faults.full = True
    broker.create_topic("t")
    for _ in range(3):
        reopening(broker).try_again()
    disk.faults.full = False
    for _ in range(3):
        reopening(broker).try_again()
    told = [one for one in caplog.messages if one.startswith("partition=t-0 ")]
    assert [one.split()[1] for one in told] == ["state=offline", "state=online"]


class AskedController:
    """Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[AssignReplicasToDirsRequest] = []
        self.was_asked = asyncio.Event()

    async def ask(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.asked.append(request)
        self.was_asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def test_the_controller_is_told_where_a_log_is_that_was_made_late(disk: MemoryDisk) -> None:
    broker = on(disk, ("a", "b"))
    controller = AskedController()
    assignments = DirectoryAssignments(
        node_id=NODE,
        directories=broker.directories,
        ids={"/a": b"a" * 16, "/b": b"b" * 16},
        is_damaged=broker.partitions.is_damaged,
        controller=cast(Any, controller),
        broker_epoch=lambda: 1,
    )
    disk.faults.full = True
    topic_id = broker.create_topic("t")
    topic = broker.services.image.topics_by_name["t"]
    assignments.note(Delta(topics_created=(topic,)), broker.services.image)
    disk.faults.full = False

    def publish(delta: Delta) -> None:
        broker._apply(delta)
        assignments.note(delta, broker.services.image)

    assert Reopening(partitions=broker.partitions, publish=publish).try_again()

    async def scenario() -> None:
        running = asyncio.create_task(assignments.run())
        async with asyncio.timeout(60):
            await controller.was_asked.wait()
        running.cancel()

    asyncio.run(scenario())
    [directory] = controller.asked[0].directories
    [told] = directory.topics
    home = broker.partition("t").log.directory.rpartition("/")[0]
    assert directory.id == home[1:].encode() * 16
    assert (told.topic_id, [one.partition_index for one in told.partitions]) == (topic_id, [0])
