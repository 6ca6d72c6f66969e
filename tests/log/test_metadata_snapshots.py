"""Files of metadata snapshots: whole or refused, whatever happened to them."""

import random
import re

import pytest

from penstock.log.metadata_snapshots import (
    DamagedSnapshot,
    MetadataSnapshots,
    SnapshotPart,
    SnapshotWriter,
)
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.records.iterate import records_of
from rig.memory_disk import MemoryDisk

DIRECTORY = "/data/__cluster_metadata-0"
ID = SnapshotId(Offset(4711), LeaderEpoch(3))
PATH = f"{DIRECTORY}/00000000000000004711-0000000003.checkpoint"
VALUES = [[b"one", b"two"], [b"three"]]


def written(disk: MemoryDisk, snapshot_id: SnapshotId = ID) -> MetadataSnapshots:
    disk.make_directory(DIRECTORY)
    snapshots = MetadataSnapshots(disk=disk, directory=DIRECTORY)
    part = snapshots.begin(snapshot_id)
    write(part)
    part.file.sync()
    snapshots.publish(part)
    return snapshots


def write(part: SnapshotPart) -> None:
    writer = SnapshotWriter(part, timestamp_ms=1234)
    for values in VALUES:
        writer.append(values)
    writer.finish()


def values_in(snapshots: MetadataSnapshots, snapshot_id: SnapshotId = ID) -> list[list[bytes]]:
    return [
        [bytes(record.value or b"") for record in records_of(batch)]
        for batch in snapshots.batches(snapshot_id)
    ]


def test_what_was_written_is_read_back_after_a_restart() -> None:
    disk = MemoryDisk()
    written(disk)
    assert disk.exists(PATH)
    again = MetadataSnapshots(disk=disk, directory=DIRECTORY)
    assert again.ids == (ID,)
    assert again.latest == ID
    assert values_in(again) == VALUES
    assert again.timestamp_ms(ID) == 1234
    assert [batch.leader_epoch for batch in again.batches(ID)] == [3, 3]


def test_nothing_counts_before_it_is_published() -> None:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    snapshots = MetadataSnapshots(disk=disk, directory=DIRECTORY)
    write(snapshots.begin(ID))
    assert snapshots.latest is None
    assert [name[-5:] for name in disk.names(DIRECTORY)] == [".part"]
    again = MetadataSnapshots(disk=disk, directory=DIRECTORY)
    assert again.latest is None
    assert disk.names(DIRECTORY) == [], "what a crash left unfinished is removed"


def test_snapshots_are_ordered_by_their_offsets() -> None:
    disk = MemoryDisk()
    ids = [SnapshotId(Offset(offset), LeaderEpoch(3)) for offset in (9, 100, 20)]
    for snapshot_id in ids:
        snapshots = written(disk, snapshot_id)
    assert [one.offset for one in snapshots.ids] == [9, 20, 100]
    snapshots.remove(ids[2])
    assert [one.offset for one in snapshots.ids] == [9, 100]
    assert not disk.exists(snapshots.path(ids[2]))


def test_every_single_damaged_byte_and_every_cut_is_found() -> None:
    disk = MemoryDisk()
    snapshots = written(disk)
    whole = disk.read(PATH)
    for position in range(len(whole)):
        disk.write_whole(PATH, whole[:position])
        with pytest.raises(DamagedSnapshot, match=re.escape(f"{PATH}: ")):
            snapshots.batches(ID)
        changed = bytearray(whole)
        changed[position] ^= 0x41
        disk.write_whole(PATH, bytes(changed))
        try:
            assert values_in(snapshots) == VALUES
        except DamagedSnapshot:
            continue
        # What no checksum covers is not used either: the leader epoch of a batch.
        assert any(start + 12 <= position < start + 16 for start in starts_of_batches(whole)), (
            position
        )


def starts_of_batches(whole: bytes) -> list[int]:
    starts, position = [], 0
    while position < len(whole):
        starts.append(position)
        position += 12 + int.from_bytes(whole[position + 8 : position + 12])
    return starts


def test_a_snapshot_without_its_end_or_its_beginning_is_refused() -> None:
    disk = MemoryDisk()
    snapshots = written(disk)
    whole = disk.read(PATH)
    starts = starts_of_batches(whole)
    for damaged, reason in (
        (whole[: starts[-1]], "without a footer"),
        (whole[starts[1] :], "out of order"),
        (whole[: starts[1]] + whole[starts[2] :], "out of order"),
        (b"", "empty"),
        (whole + whole[: starts[1]], "out of order"),
    ):
        disk.write_whole(PATH, damaged)
        with pytest.raises(DamagedSnapshot, match=reason):
            snapshots.batches(ID)


def test_a_snapshot_is_sent_and_received_in_chunks() -> None:
    snapshots = written(MemoryDisk())
    there = MemoryDisk()
    there.make_directory(DIRECTORY)
    received = MetadataSnapshots(disk=there, directory=DIRECTORY)
    part = received.begin(ID)
    while chunk := snapshots.read_chunk(ID, position=part.size_bytes, count=17):
        with pytest.raises(DamagedSnapshot):
            received.check(part)
        part.append([chunk])
    received.check(part)
    part.file.sync()
    received.publish(part)
    assert values_in(received) == VALUES
    assert there.read(PATH) == snapshots.read_chunk(ID, position=0, count=1 << 20)


def test_a_part_that_is_given_up_leaves_nothing() -> None:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    snapshots = MetadataSnapshots(disk=disk, directory=DIRECTORY)
    part = snapshots.begin(ID)
    part.append([b"something"])
    snapshots.drop(part)
    assert disk.names(DIRECTORY) == []
    assert snapshots.begin(ID).size_bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_published_snapshot_survives_a_power_loss(seed: int) -> None:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    for parent in ("/", "/data"):
        disk.sync_directory(parent)
    written(disk)
    left = disk.after_power_loss(random.Random(seed))
    assert values_in(MetadataSnapshots(disk=left, directory=DIRECTORY)) == VALUES
