"""Whatever the moment of a crash, a replica that is moved comes back with all its records, once."""

import asyncio
import random
from dataclasses import replace
from typing import Any, cast

import pytest

from penstock.broker.partitions.directory_assignments import DirectoryAssignments
from penstock.broker.partitions.directory_moves import DirectoryMoves
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.partitions.partitions import Partitions
from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import write_identity
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.broker import parse_broker
from penstock.replication.partition import Partition
from penstock.world.real import real_world
from rig.logs import values
from rig.memory_disk import Crashed, MemoryDisk
from rig.produced import NOW_MS, produced

NODE = NodeId(1)
NAME = TopicPartition("t", 0)
PATHS = {"a": "/disks/a", "b": "/disks/b"}
IDS = {"a": b"a" * 16, "b": b"b" * 16}
TOPIC = TopicImage(
    name="t",
    topic_id=TopicId(bytes(range(16))),
    partitions=(
        PartitionImage(
            replicas=(NODE,),
            isr=(NODE,),
            leader=NODE,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
        ),
    ),
)
CALLS_MAX = 600


class Host:
    """The directories of a broker on a disk in memory, with the metadata as a test says."""

    def __init__(self, disk: MemoryDisk, assigned: str) -> None:
        settings = parse_broker({})
        clock = real_world(inline=True).clock
        self.directories = LogDirectories.open(
            disk=disk,
            paths=list(PATHS.values()),
            metadata_path=PATHS["a"],
            producer_expiry_ms=settings.producer_id_expiration_ms,
        )
        self.partitions = Partitions(
            directories=self.directories, node_id=NODE, settings=settings, disk=disk, clock=clock
        )
        ids = {PATHS[name]: IDS[name] for name in PATHS}
        self.assignments = DirectoryAssignments(
            node_id=NODE,
            directories=self.directories,
            ids=ids,
            is_damaged=self.partitions.is_damaged,
            controller=cast(Any, None),
            broker_epoch=lambda: 1,
        )
        self.moves = DirectoryMoves(
            node_id=NODE,
            partitions=self.partitions,
            ids=ids,
            assignments=self.assignments,
            disk=disk,
            clock=clock,
        )
        self.assign(assigned)

    def assign(self, home: str) -> None:
        partition = replace(TOPIC.partitions[0], directories=(IDS[home],))
        topic = replace(TOPIC, partitions=(partition,))
        image = Image(topics_by_name={"t": topic}, topics_by_id={topic.topic_id: topic})
        delta = Delta(topics_changed=(topic,))
        self.partitions.apply(delta, image)
        self.assignments.note(delta, image)
        self.moves.note(image)
        self.partitions.check()
        self.moves.check()

    @property
    def partition(self) -> Partition:
        found = self.partitions.find("t", 0)
        assert isinstance(found, Partition), found
        return found

    @property
    def home(self) -> str:
        return self.partition.log.directory.split("/")[2]

    async def take_turns(self, count: int = 1) -> None:
        for _ in range(count):
            if self.moves.is_moving(NAME):
                await self.moves._advance(NAME)


def formatted() -> MemoryDisk:
    disk = MemoryDisk()
    for name, path in PATHS.items():
        disk.make_directory(path)
        identity = DirectoryIdentity(cluster_id="c", node_id=NODE, directory_id=IDS[name])
        write_identity(disk, path, identity)
    disk.sync_directory("/")
    disk.sync_directory("/disks")
    return disk


class Promises:
    """As the scenario goes."""

    def __init__(self) -> None:
        self.acked = 0  # records that a killed process must not lose
        self.synced = 0  # and those that a power loss must not
        self.start_min = 0
        self.start_max = 0
        self.assigned = "a"


async def move(disk: MemoryDisk, promises: Promises) -> None:
    host = Host(disk, "a")
    assert host.home == "a"

    def write() -> None:
        host.partition.append(produced(2), all_acks=False, now_ms=NOW_MS)
        promises.acked = host.partition.log.end_offset

    for _ in range(4):
        write()
    host.partition.log.roll()
    write()
    host.partition.log.sync()
    promises.synced = host.partition.log.end_offset
    host.directories.save_checkpoints()
    host.moves.move(NAME, PATHS["b"])
    await host.take_turns()
    write()
    promises.start_max = 3
    host.partition.advance_start(Offset(3))
    promises.start_min = 3
    await host.take_turns(6)
    assert host.assignments.wanted_of(NAME) == IDS["b"]
    write()
    promises.assigned = "b"
    host.assign("b")
    await host.take_turns(3)
    assert host.home == "b"
    promises.synced = promises.acked
    write()
    host.directories.save_checkpoints()
    host.directories.abandon()


def check_came_back(disk: MemoryDisk, promises: Promises, *, promised_end: int) -> None:
    host = Host(disk, promises.assigned)
    log = host.partition.log
    assert log.end_offset >= promised_end
    assert promises.start_min <= log.start_offset <= promises.start_max
    assert len(values(log)) == log.end_offset - log.start_offset
    currents = [
        name for name in PATHS if NAME in host.directories.online[PATHS[name]].partitions_found()
    ]
    assert currents == [host.home]
    # And the move goes on, to its end.
    host.moves.move(NAME, PATHS["b"])
    before = values(log)
    asyncio.run(host.take_turns(12))
    host.assign("b")
    asyncio.run(host.take_turns(6))
    assert host.home == "b"
    assert values(host.partition.log) == before
    host.directories.abandon()


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_crash_at_any_call_of_a_move_loses_nothing(loses_power: bool) -> None:
    chance = random.Random(7)
    crashes = 0
    for crash_at in range(CALLS_MAX):
        disk, promises = formatted(), Promises()
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        try:
            asyncio.run(move(disk, promises))
        except Crashed:
            crashes += 1
        else:
            break
        left = disk.after_power_loss(chance) if loses_power else disk.after_kill()
        try:
            check_came_back(
                left, promises, promised_end=promises.synced if loses_power else promises.acked
            )
        except AssertionError as error:
            raise AssertionError(f"after a crash at call {crash_at}: {error}") from error
    assert 60 < crashes < CALLS_MAX


def test_a_move_is_resumed_from_what_was_copied() -> None:
    disk = formatted()

    async def scenario() -> None:
        host = Host(disk, "a")
        for _ in range(3):
            host.partition.append(produced(2), all_acks=False, now_ms=NOW_MS)
        host.moves.move(NAME, PATHS["b"])
        await host.take_turns(4)
        future = host.directories.future_of(NAME)
        assert future is not None
        assert future.end_offset == 6
        host.directories.close(broker_epoch=1)
        again = Host(disk, "a")
        resumed = again.directories.future_of(NAME)
        assert resumed is not None
        assert (resumed.directory, resumed.end_offset) == (future.directory, 6)
        assert again.moves.is_moving(NAME)
        again.assign("b")
        await again.take_turns(3)
        assert again.home == "b"

    asyncio.run(scenario())


def test_a_copy_is_used_when_it_is_all_that_is_left() -> None:
    """The controller was told, the process killed before the change, and the disk replaced."""
    disk = formatted()

    async def scenario() -> None:
        host = Host(disk, "a")
        host.partition.append(produced(2), all_acks=False, now_ms=NOW_MS)
        host.moves.move(NAME, PATHS["b"])
        await host.take_turns(4)
        host.directories.abandon()

    asyncio.run(scenario())
    disk.remove_tree("/disks/a/t-0")
    again = Host(disk, "b")
    assert again.home == "b"
    assert again.partition.log.end_offset == 2
    assert again.partitions.lacking == [NAME]  # so the broker says that it has lost records


def test_a_compacted_log_that_was_moved_keeps_what_stands_behind_its_gaps() -> None:
    disk = formatted()

    async def scenario() -> None:
        host = Host(disk, "a")
        partition = host.partition
        partition.append(produced(2), all_acks=False, now_ms=NOW_MS)
        partition.log.pass_over(Offset(9), now_ms=NOW_MS)  # as after a compaction
        partition.log.cleaned_offset = Offset(9)
        partition.append(produced(2), all_acks=False, now_ms=NOW_MS)
        host.moves.move(NAME, PATHS["b"])
        await host.take_turns(8)
        host.assign("b")
        await host.take_turns(3)
        assert host.home == "b"
        host.directories.abandon()

    asyncio.run(scenario())
    again = Host(disk.after_kill(), "b")
    assert again.partition.log.end_offset == 11
