"""The controller is told of logs that cannot be opened because of damage, so that others lead
their partitions; and of the directory of such a log once it is good again.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.broker.partitions.directory_assignments import DirectoryAssignments
from penstock.metadata.image.image import Delta
from penstock.metadata.image.topic import LOST_DIRECTORY
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.replication.follower import Follower
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedReplica,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.world.errors import DiskError
from rig.memory_disk import MemoryDisk
from rig.services import NODE, OTHER, Broker

HOME = b"a" * 16
CLAIM = "/data/t-0/partition.metadata"
NAME = TopicPartition("t", 0)


class Controller:
    """Assigns what it is asked to, and keeps it."""

    def __init__(self) -> None:
        self.directories: list[bytes] = []

    async def ask(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.directories += [directory.id for directory in request.directories]
        return AssignReplicasToDirsResponse(
            directories=[
                AssignedDirectory(
                    id=directory.id,
                    topics=[
                        AssignedTopic(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignedReplica(partition_index=one.partition_index)
                                for one in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )


class Damaged:
    """A broker with one log, of partition t-0, that it cannot open."""

    def __init__(self, *replicas: NodeId, leader: NodeId = NODE) -> None:
        self.disk = MemoryDisk()
        self.broker = Broker(Path("/"), disk=self.disk)
        self.broker._apply(Delta())
        self.disk.make_directory("/data/t-0")
        self.disk.write_whole(CLAIM, b"version: 9")
        self.controller = Controller()
        self.assignments = DirectoryAssignments(
            node_id=NODE,
            directories=self.broker.directories,
            ids={"/data": HOME},
            is_damaged=self.broker.partitions.is_damaged,
            controller=cast(Any, self.controller),
            broker_epoch=lambda: 1,
        )
        self.broker.create_topic("t", leader=leader, replicas=replicas)
        topic = self.broker.services.image.topics_by_name["t"]
        self._note(Delta(topics_created=(topic,)))

    def change(self, directory: bytes | None, **changes: Any) -> None:
        """The metadata now has the replica in this directory; None: they are as they were."""
        topic = self.broker.services.image.topics_by_name["t"]
        if directory is not None:
            [partition] = topic.partitions
            directories = (directory, HOME)[: len(partition.replicas)]
            changed = replace(partition, directories=directories, **changes)
            topic = replace(topic, partitions=(changed,))
        self.broker.change_topic(topic)
        self._note(Delta(topics_changed=(topic,)))

    def told(self) -> list[bytes]:
        """What the controller was told since it was looked at last."""

        async def scenario() -> None:
            running = asyncio.create_task(self.assignments.run())
            for _ in range(10):  # all that is ready to run
                await asyncio.sleep(0)
            running.cancel()

        asyncio.run(scenario())
        told, self.controller.directories = self.controller.directories, []
        return told

    def _note(self, delta: Delta) -> None:
        self.assignments.note(delta, self.broker.services.image)
        self.broker.partitions.check()


@pytest.mark.parametrize("leader", [NODE, OTHER])
def test_a_damaged_replica_is_told_to_be_lost_once(leader: NodeId) -> None:
    damaged = Damaged(NODE, OTHER, leader=leader)
    assert damaged.told() == [LOST_DIRECTORY]
    damaged.change(LOST_DIRECTORY)
    assert damaged.told() == []


def test_the_only_replica_of_a_partition_stays_its_leader() -> None:
    damaged = Damaged(NODE)
    assert damaged.broker.partitions.find("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert damaged.told() == []


def test_the_directory_of_a_log_that_is_good_again_is_told() -> None:
    damaged = Damaged(NODE, OTHER)
    assert damaged.told() == [LOST_DIRECTORY]
    damaged.change(LOST_DIRECTORY)
    damaged.disk.remove(CLAIM)
    damaged.change(None)
    assert damaged.broker.partition("t").log.end_offset == 0
    assert damaged.told() == [HOME]


def test_a_log_that_only_lacks_room_is_not_told_to_be_lost() -> None:
    damaged = Damaged(NODE, OTHER)
    damaged.disk.remove(CLAIM)
    damaged.disk.faults.full = True
    damaged.change(None)
    assert damaged.broker.partitions.find("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert damaged.told() == []


def test_a_damaged_log_is_set_aside_and_copied_anew_once_others_lead() -> None:
    damaged = Damaged(NODE, OTHER)
    assert damaged.told() == [LOST_DIRECTORY]
    damaged.change(LOST_DIRECTORY, leader=OTHER, leader_epoch=LeaderEpoch(1), isr=(OTHER,))
    follower = damaged.broker.partitions.replica(NAME)
    assert isinstance(follower, Follower)
    assert follower.log.end_offset == 0
    assert damaged.told() == [HOME]
    [stray] = (name for name in damaged.disk.names("/data") if name.endswith("-stray"))
    assert damaged.disk.read(f"/data/{stray}/partition.metadata") == b"version: 9"


@pytest.mark.parametrize(
    "changes",
    [
        {"leader": None, "isr": ()},
        {"leader": OTHER, "isr": (OTHER, NODE)},
        {"leader": OTHER, "isr": (OTHER,), "elr": (NODE,)},
        {"leader": None, "isr": (), "last_known_elr": (NODE,)},
    ],
    ids=["nobody leads", "in sync", "eligible", "last known leader"],
)
def test_a_damaged_log_stays_while_somebody_counts_on_it_or_nobody_leads(
    changes: dict[str, Any],
) -> None:
    damaged = Damaged(NODE, OTHER)
    damaged.change(LOST_DIRECTORY, leader_epoch=LeaderEpoch(1), **changes)
    assert damaged.broker.partitions.is_damaged(NAME)
    assert damaged.disk.read(CLAIM) == b"version: 9"


def test_a_directory_that_fails_with_a_damaged_log_in_it_does_not_end_the_broker(
    tmp_path: Path,
) -> None:
    claim = tmp_path / "b" / "t-0" / "partition.metadata"
    claim.parent.mkdir(parents=True)
    claim.write_bytes(b"version: 9")
    broker = Broker(tmp_path, directories=("a", "b"))
    broker._apply(Delta())
    broker.create_topic("t", replicas=(NODE, OTHER))
    assert broker.partitions.is_damaged(NAME)
    path = str(tmp_path / "b")
    broker.partitions.take_offline(path, DiskError(path, "broken"))
    topic = broker.services.image.topics_by_name["t"]
    [partition] = topic.partitions
    led = replace(
        partition,
        leader=OTHER,
        leader_epoch=LeaderEpoch(1),
        isr=(OTHER,),
        directories=(LOST_DIRECTORY, HOME),
    )
    broker.change_topic(replace(topic, partitions=(led,)))
    assert broker.partitions.replica(NAME) is None


def test_damage_is_told_before_a_broker_may_lead() -> None:
    damaged = Damaged(NODE, OTHER)
    asyncio.run(damaged.assignments.tell_damaged())
    assert damaged.controller.directories == [LOST_DIRECTORY]
