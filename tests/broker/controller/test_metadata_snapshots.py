"""The controller makes snapshots, trims its log, and starts from them, also when one is damaged."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.delete_topics import API as DELETE_TOPICS
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.metadata.image.image import Image
from penstock.metadata.records import UnreadableMetadata
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.world.errors import DiskError
from penstock.world.ports import File
from rig.control import NODE, Control, run_with, until
from rig.memory_disk import MemoryDisk

DIRECTORY = "/data/__cluster_metadata-0"
LARGE = ",".join(["0:1"] * 4000)  # one setting of 16 KB: two of them make a snapshot due


async def create(control: Control, name: str, *, large: bool = False) -> int:
    configs = [CreatableTopicConfig(name="leader.replication.throttled.replicas", value=LARGE)]
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, configs=configs if large else []
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    reply = await control.ask(CREATE_TOPICS, request, CreateTopicsResponse)
    return reply.topics[0].error_code


async def create_and_delete(control: Control, name: str) -> None:
    assert await create(control, name, large=True) == 0
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=60_000)
    reply = await control.ask(DELETE_TOPICS, request, DeleteTopicsResponse)
    assert reply.responses[0].error_code == 0


def snapshots_on(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if name.endswith(".checkpoint")]


async def make_snapshots(control: Control, disk: MemoryDisk, count: int) -> None:
    """Creates and deletes topics until so many snapshots were made, one after the other."""
    for number in range(count):
        before = snapshots_on(disk)
        for index in range(3):
            await create_and_delete(control, f"passing-{number}-{index}")
        await until(lambda before=before: snapshots_on(disk)[-1:] != before[-1:])  # type: ignore[misc]


def with_snapshots(count: int, **settings: str) -> tuple[MemoryDisk, Image]:
    """A disk on which a controller made snapshots, and the image it had at its end."""
    disk = MemoryDisk()

    async def scenario(control: Control) -> Image:
        assert await create(control, "first") == 0
        await make_snapshots(control, disk, count)
        assert await create(control, "last") == 0
        return control.image

    return disk, run_with(disk, scenario, **settings)


async def topics(control: Control) -> list[str]:
    return list(control.image.topics_by_name)


def test_a_start_reads_the_latest_snapshot_and_the_log_behind_it() -> None:
    disk, image = with_snapshots(3)

    async def scenario(control: Control) -> None:
        assert control.log.start_offset > 0, "the log alone does not say it"
        assert control.image.topics_by_name.keys() == {"first", "last"}
        before, after = image.topics_by_name["first"], control.image.topics_by_name["first"]
        assert after.topic_id == before.topic_id
        assert control.image.features == image.features
        assert control.image.epoch == image.epoch + 1
        assert await create(control, "first") != 0, "the controller knows it too"

    run_with(disk, scenario)


def test_a_broker_learns_of_every_topic_of_a_snapshot_at_its_start() -> None:
    """Partitions are opened by what has changed, and to a broker that starts all of it is new."""
    disk, _ = with_snapshots(3)

    async def scenario(control: Control) -> None:
        first = control.deltas[0]
        assert {topic.name for topic in first.topics_created} == {"first", "last"}
        assert first.features_changed

    run_with(disk, scenario)


def test_the_log_begins_with_the_snapshot_before_the_latest() -> None:
    disk, _ = with_snapshots(5)
    kept = snapshots_on(disk)
    assert len(kept) == 2

    async def scenario(control: Control) -> tuple[int, int]:
        return control.log.start_offset, control.log.epochs.entries[0].epoch

    start_offset, epoch = run_with(disk, scenario)
    assert start_offset == int(kept[0][:20])
    assert epoch == int(kept[0][21:31])


def damage(disk: MemoryDisk, name: str) -> None:
    data = bytearray(disk.read(f"{DIRECTORY}/{name}"))
    data[len(data) // 2] ^= 1
    disk.write_whole(f"{DIRECTORY}/{name}", bytes(data))


def test_a_damaged_snapshot_is_passed_over_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, _ = with_snapshots(4)
    latest = snapshots_on(disk)[-1]
    damage(disk, latest)
    with caplog.at_level(logging.WARNING):
        assert run_with(disk, topics) == ["first", "last"]
    told = [record.getMessage() for record in caplog.records if latest in record.getMessage()]
    assert len(told) == 1, told
    assert "wrong checksum" in told[0]

    # The next snapshot takes its place, and is as good as any.
    run_with(disk, lambda control: make_snapshots(control, disk, 1))
    assert latest not in snapshots_on(disk)
    caplog.clear()
    assert run_with(disk, topics) == ["first", "last"]
    assert [line for line in caplog.messages if "snapshot" in line] == []


def test_a_start_without_any_whole_snapshot_is_refused_with_the_reason() -> None:
    disk, _ = with_snapshots(4)
    for name in snapshots_on(disk):
        damage(disk, name)
    with pytest.raises(UnreadableMetadata) as refused:
        run_with(disk, topics)
    message = str(refused.value)
    assert snapshots_on(disk)[-1] in message
    assert "wrong checksum" in message
    assert "restore" in message
    assert "\n" not in message


def test_a_log_that_reaches_back_to_its_beginning_needs_no_snapshot() -> None:
    disk, _ = with_snapshots(1)
    for name in snapshots_on(disk):
        damage(disk, name)
    assert run_with(disk, topics) == ["first", "last"]


def test_snapshots_that_are_lost_with_the_log_below_them_are_missed() -> None:
    disk, _ = with_snapshots(4)
    for name in snapshots_on(disk):
        disk.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(UnreadableMetadata, match="has no snapshot"):
        run_with(disk, topics)


def test_a_log_that_was_lost_begins_anew_behind_the_snapshot() -> None:
    disk, _ = with_snapshots(4)
    latest = snapshots_on(disk)[-1]
    for name in disk.names(DIRECTORY):
        if not name.endswith(".checkpoint"):
            disk.remove(f"{DIRECTORY}/{name}")

    async def scenario(control: Control) -> tuple[list[str], int, int]:
        return await topics(control), control.log.start_offset, control.image.epoch

    found, start_offset, epoch = run_with(disk, scenario)
    assert "first" in found
    assert "last" not in found, "what came after the snapshot is gone"
    assert start_offset == int(latest[:20])
    assert epoch == int(latest[21:31]) + 1


def test_retention_by_size_leaves_one_snapshot() -> None:
    disk, _ = with_snapshots(4, metadata_max_retention_bytes="1000")
    assert len(snapshots_on(disk)) == 1
    assert run_with(disk, topics) == ["first", "last"]


def test_retention_by_age_is_looked_at_at_a_start_too() -> None:
    disk, _ = with_snapshots(4)
    kept = snapshots_on(disk)

    async def scenario(control: Control) -> None:
        await until(lambda: snapshots_on(disk) == kept[1:])
        assert control.log.start_offset == int(kept[1][:20])

    run_with(disk, scenario, metadata_max_retention_ms="0")


def test_the_settings_of_kafka_make_snapshots_earlier() -> None:
    disk = MemoryDisk()

    async def scenario(control: Control) -> None:
        assert await create(control, "small") == 0
        await until(lambda: snapshots_on(disk) != [])

    run_with(disk, scenario, metadata_log_max_record_bytes_between_snapshots="100")


def test_an_interval_that_has_passed_makes_a_snapshot() -> None:
    disk = MemoryDisk()

    async def scenario(control: Control) -> None:
        assert await create(control, "small") == 0
        await until(lambda: snapshots_on(disk) != [])

    run_with(disk, scenario, metadata_log_max_snapshot_interval_ms="1")


def test_a_full_disk_delays_the_snapshot_and_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class FullForSnapshots(MemoryDisk):
        full = True

        def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
            if self.full and path.endswith(".part"):
                raise DiskError(path, "no space left", full=True)
            return super().open(path, create=create, writable=writable)

    disk = FullForSnapshots()

    async def scenario(control: Control) -> None:
        for index in range(6):
            await create_and_delete(control, f"passing-{index}")
        assert snapshots_on(disk) == []
        disk.full = False
        await make_snapshots(control, disk, 1)

    with caplog.at_level(logging.WARNING):
        run_with(disk, scenario)
    told = [one.getMessage() for one in caplog.records if "no space left" in one.getMessage()]
    assert 1 <= len(told) <= 4, "not with each change"


def journal_of(control: Control) -> MetadataJournal:
    return MetadataJournal(
        log=control.log,
        disk=control.world.disk,
        clock=control.world.clock,
        node_id=NODE,
        voters=VoterSet([ReplicaKey(NODE, None)]),
    )


def test_a_foreign_snapshot_takes_the_place_of_the_log() -> None:
    source, _ = with_snapshots(4)
    name = snapshots_on(source)[-1]
    data = source.read(f"{DIRECTORY}/{name}")
    snapshot_id = SnapshotId(Offset(int(name[:20])), LeaderEpoch(int(name[21:31]) + 5))
    disk, _ = with_snapshots(0)

    async def install(control: Control) -> None:
        journal = journal_of(control)
        part = journal.snapshots.begin(snapshot_id)
        for chunk in chunks(data, 1000):
            part.append([chunk])
        journal.install(part)
        assert control.log.start_offset == control.log.end_offset == snapshot_id.offset
        assert [tuple(entry) for entry in entries(control)] == [
            (snapshot_id.epoch, snapshot_id.offset)
        ]
        recovered = journal.recover()
        assert recovered.snapshot == snapshot_id
        assert not journal.tail
        await control.sever()

    def entries(control: Control) -> Sequence[tuple[int, int]]:
        return [(entry.epoch, entry.start_offset) for entry in control.log.epochs.entries]

    run_with(disk, install)

    async def epoch(control: Control) -> int:
        assert "first" in await topics(control)
        return control.image.epoch

    assert run_with(disk, epoch) == snapshot_id.epoch + 1


class SlowForSnapshots(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.writes = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def sync(self, files: Sequence[File]) -> None:
        if any(file.path.endswith(".part") for file in files):
            self.writes.set()
            await self.goes_on.wait()
        await super().sync(files)


def test_what_is_committed_while_a_snapshot_is_made_gets_one_too() -> None:
    disk = SlowForSnapshots()

    async def scenario(control: Control) -> None:
        assert await create(control, "first") == 0
        await disk.writes.wait()
        assert await create(control, "second") == 0
        end = control.image.offset
        disk.goes_on.set()
        await until(lambda: any(int(name[:20]) == end for name in snapshots_on(disk)))

    run_with(disk, scenario, metadata_log_max_record_bytes_between_snapshots="1")


def test_a_snapshot_that_comes_while_one_is_made_takes_its_place() -> None:
    source, _ = with_snapshots(4)
    name = snapshots_on(source)[-1]
    data = source.read(f"{DIRECTORY}/{name}")
    disk = SlowForSnapshots()

    async def scenario(control: Control) -> None:
        for index in range(4):
            await create_and_delete(control, f"passing-{index}")
        await disk.writes.wait()
        journal = control.controller._journal
        received = SnapshotId(Offset(control.image.offset + 100), control.image.epoch)
        part = journal.snapshots.begin(received)
        part.append([data])
        journal.install(part)
        control.controller._install(received)
        disk.goes_on.set()
        await until(lambda: not [one for one in disk.names(DIRECTORY) if one.endswith(".part")])
        assert snapshots_on(disk) == [f"{received}.checkpoint"]
        assert control.controller._snapshotting._log_bytes == 0

    run_with(disk, scenario)


def chunks(data: bytes, size: int) -> list[bytes]:
    return [data[position : position + size] for position in range(0, len(data), size)]
