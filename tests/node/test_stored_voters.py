"""The voters that a metadata directory names are read back as they were formatted."""

import pytest

from penstock.log.metadata_snapshots import DamagedSnapshot, MetadataSnapshots, SnapshotWriter
from penstock.metadata.bootstrap_files import VOTERS_FILE, voters_checkpoint
from penstock.metadata.voter_records import UnusableVoters, voter_records
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.model.settings.listener import DirectoryVoter, directory_voters
from penstock.node.stored_voters import read_voters
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterEndpoint, VoterSet
from rig.memory_disk import MemoryDisk

DATA = "/data/node-1"
LOG = f"{DATA}/__cluster_metadata-0"
NOW_MS = 1_700_000_000_000
FIRST = directory_voters("1@[::1]:9093:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A")
LATER = directory_voters("2@c:9093:MvDxzVmcRsaTz33bUuRU6A,3@d:9093:07R5amHmR32VDA6jHkGbTA")
LATER_ID = SnapshotId(Offset(4711), LeaderEpoch(3))


def formatted(voters: tuple[DirectoryVoter, ...] = FIRST) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(LOG)
    content = voters_checkpoint(voters, listener="CONTROLLER", now_ms=NOW_MS)
    disk.write_whole(f"{LOG}/{VOTERS_FILE}", content)
    return disk


def make_snapshot(disk: MemoryDisk, voters: tuple[DirectoryVoter, ...]) -> str:
    """A later snapshot, as a running node writes it."""
    snapshots = MetadataSnapshots(disk=disk, directory=LOG)
    part = snapshots.begin(LATER_ID)
    quorum = voter_records(voters, listener="CONTROLLER", timestamp_ms=NOW_MS) if voters else ()
    writer = SnapshotWriter(part, timestamp_ms=NOW_MS, quorum=quorum)
    writer.append([b"a record"])
    writer.finish()
    part.file.sync()
    snapshots.publish(part)
    return snapshots.path(LATER_ID)


def read(disk: MemoryDisk, listener: str = "CONTROLLER") -> tuple[DirectoryVoter, ...] | None:
    return read_voters(disk, DATA, listener=listener)


def test_voters_of_formatting_are_read_back_in_the_order_of_their_ids() -> None:
    assert read(formatted(tuple(reversed(FIRST)))) == FIRST


def test_newest_snapshot_counts() -> None:
    disk = formatted()
    make_snapshot(disk, LATER)
    assert read(disk) == LATER


def test_voters_are_found_after_the_snapshot_of_formatting_was_removed() -> None:
    disk = formatted()
    make_snapshot(disk, LATER)
    disk.remove(f"{LOG}/{VOTERS_FILE}")
    assert read(disk) == LATER


def test_snapshot_that_names_no_voters_is_passed_over() -> None:
    disk = formatted()
    make_snapshot(disk, ())
    assert read(disk) == FIRST


@pytest.mark.parametrize("kept_bytes", [0, 40, 100])
def test_damaged_snapshot_is_passed_over_for_an_older_one(kept_bytes: int) -> None:
    disk = formatted()
    path = make_snapshot(disk, LATER)
    damage(disk, path, kept_bytes)
    assert read(disk) == FIRST


def test_damage_is_told_if_no_other_snapshot_names_the_voters() -> None:
    disk = formatted()
    damage(disk, f"{LOG}/{VOTERS_FILE}", 100)
    with pytest.raises(DamagedSnapshot, match=VOTERS_FILE):
        read(disk)


def test_changed_byte_is_damage() -> None:
    disk = formatted()
    path = f"{LOG}/{VOTERS_FILE}"
    content = bytearray(disk.open(path).read_at(0, disk.size(path)))
    content[100] ^= 1
    disk.write_whole(path, bytes(content))
    with pytest.raises(DamagedSnapshot, match="checksum"):
        read(disk)


def test_directory_with_static_voters_names_none() -> None:
    disk = MemoryDisk()
    assert read(disk) is None
    disk.make_directory(LOG)
    assert read(disk) is None
    make_snapshot(disk, ())
    assert read(disk) is None


def test_reading_changes_nothing() -> None:
    disk = formatted()
    disk.write_whole(f"{LOG}/{LATER_ID}.checkpoint.part", b"being received")
    before = sorted(disk.names(LOG))
    read(disk)
    assert sorted(disk.names(LOG)) == before


def test_name_of_the_listener_counts_without_its_case() -> None:
    assert read(formatted(), "controller") == FIRST


def test_voter_without_the_listener_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(UnusableVoters) as refused:
        read(formatted(), "CTRL")
    assert str(refused.value) == (
        f"{LOG}/{VOTERS_FILE}: voter 1 has no listener CTRL, but CONTROLLER:"
        " controller.listener.names must begin with the same name on all nodes"
    )


def test_a_listener_that_voters_have_got_since_is_known_from_the_log() -> None:
    """Who votes is as the snapshot says: the last set in the log may be cut off again."""
    latest = VoterSet(
        [ReplicaKey(NodeId(number), b"another directory") for number in (1, 2, 3)],
        {
            NodeId(number): VoterDetails((VoterEndpoint("QUORUM", f"host-{number}", 9096),))
            for number in (1, 2, 3)
        },
    )
    voters = read_voters(formatted(), DATA, listener="quorum", latest=latest)
    assert voters is not None
    assert [(one.node_id, one.host, one.port) for one in voters] == [
        (NodeId(1), "host-1", 9096),
        (NodeId(2), "host-2", 9096),
    ]
    assert [one.directory_id for one in voters] == [one.directory_id for one in FIRST]
    with pytest.raises(UnusableVoters, match="voter 2 has no listener QUORUM, but CONTROLLER"):
        read_voters(formatted(), DATA, listener="QUORUM", latest=latest.without(NodeId(2)))


def test_addresses_are_those_of_the_voters() -> None:
    voters = read(formatted())
    assert voters is not None
    assert [(one.node_id, one.host, one.port) for one in voters] == [
        (NodeId(1), "::1", 9093),
        (NodeId(2), "b", 9093),
    ]


def damage(disk: MemoryDisk, path: str, kept_bytes: int) -> None:
    disk.write_whole(path, disk.open(path).read_at(0, kept_bytes))
