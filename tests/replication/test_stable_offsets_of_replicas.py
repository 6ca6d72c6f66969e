"""`read_committed` readers stop where they must, whichever replica they read and whoever led."""

from pathlib import Path

import pytest

from penstock.log.opening import LeftBehind, open_log
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.replication.follower import Follower
from penstock.replication.guard import Guard
from penstock.replication.leader import Refusal
from penstock.replication.marker import Marker
from penstock.replication.partition import Appended, Partition
from penstock.wire.messages.fetch import PartitionData
from rig.memory_disk import MemoryDisk
from rig.produced import NOW_MS, produced

LEADER, FOLLOWER = NodeId(1), NodeId(2)
EPOCH = LeaderEpoch(3)


def open_at(disk: MemoryDisk, left: LeftBehind | None = None) -> PartitionLog:
    return open_log(
        disk=disk,
        directory="/t-0",
        partition=TopicPartition("t", 0),
        topic_id=TopicId(bytes(15) + b"\x01"),
        settings=TopicSettings(segment_bytes=500),
        now_ms=NOW_MS,
        **({} if left is None else {"left": left}),
    )


def lead(log: PartitionLog, *, high_watermark: int = 0) -> Partition:
    return Partition(
        log,
        leader_epoch=EPOCH,
        node_id=LEADER,
        replicas=(LEADER, FOLLOWER),
        in_sync=(LEADER, FOLLOWER),
        high_watermark=Offset(high_watermark),
        now_ms=NOW_MS,
    )


def write(partition: Partition, producer: int, *, sequence: int = 0) -> None:
    guard = partition.guards.take(ProducerId(producer), sequence=sequence)
    data = produced(2, producer_id=producer, epoch=0, sequence=sequence, transactional=True)
    outcome = partition.append(data, all_acks=True, now_ms=NOW_MS, guard=guard)
    assert isinstance(outcome, Appended)
    partition.guards.release(ProducerId(producer), guard)


def end(partition: Partition, producer: int, *, commit: bool = True) -> None:
    marker = Marker(
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        committed=commit,
    )
    assert not isinstance(partition.end_transaction(marker, now_ms=NOW_MS), Refusal)


def fill(partition: Partition) -> None:
    """Offsets: 0 plain, 1-2 of producer 7, 3-4 of 8, 5 marker of 7, 6-7 of 7, 8 marker of 8."""
    partition.append(produced(), all_acks=True, now_ms=NOW_MS)
    write(partition, 7)
    write(partition, 8)
    end(partition, 7, commit=False)
    write(partition, 7, sequence=2)
    end(partition, 8)
    assert partition.log.end_offset == 9


# The last stable offset by high watermark; one transaction, from offset 6 on, stays open.
STABLE = {0: 0, 1: 1, 2: 1, 4: 1, 5: 1, 6: 3, 8: 3, 9: 6}


@pytest.fixture
def leader() -> Partition:
    partition = lead(open_at(MemoryDisk()))
    fill(partition)
    return partition


@pytest.mark.parametrize("watermark", sorted(STABLE))
def test_a_leader_passes_a_transaction_when_its_marker_is_committed(
    leader: Partition, watermark: int
) -> None:
    leader.follower_fetched(FOLLOWER, offset=watermark, now_ms=NOW_MS)
    leader.check()
    assert leader.last_stable_offset == STABLE[watermark]


@pytest.mark.parametrize("watermark", sorted(STABLE))
def test_a_new_leader_finds_markers_above_the_watermark_in_its_log(
    leader: Partition, watermark: int
) -> None:
    leader.end()
    after = lead(leader.log, high_watermark=watermark)
    after.check()
    assert after.last_stable_offset == STABLE[watermark]


def test_the_only_replica_that_leads_again_passes_markers_that_it_commits_by_itself(
    leader: Partition,
) -> None:
    """What its predecessor knew of them was true for a lower watermark."""
    leader.follower_fetched(FOLLOWER, offset=1, now_ms=NOW_MS)
    leader.end()
    alone = Partition(
        leader.log,
        leader_epoch=EPOCH,
        node_id=LEADER,
        replicas=(LEADER,),
        in_sync=(LEADER,),
        high_watermark=leader.high_watermark,
        uncommitted_ends=leader.uncommitted_ends,
        now_ms=NOW_MS,
    )
    alone.check()
    assert (alone.high_watermark, alone.last_stable_offset) == (9, STABLE[9])


@pytest.mark.parametrize("watermark", sorted(STABLE))
@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_that_starts_finds_them_on_disk(watermark: int, clean: bool) -> None:
    """Over several segments, with snapshots below and above the watermark."""
    disk = MemoryDisk()
    first = lead(open_at(disk))
    fill(first)
    assert len(first.log.segments) > 1
    if clean:
        first.log.close()
    log = open_at(disk.after_kill(), LeftBehind(clean=clean))
    started = Follower(log, leader=None, leader_epoch=EPOCH, high_watermark=Offset(watermark))
    started.check()
    assert started.last_stable_offset == STABLE[watermark]


@pytest.mark.parametrize("watermark", sorted(STABLE))
def test_what_recovery_has_passed_is_not_read_again_for_them(watermark: int) -> None:
    disk = MemoryDisk()
    fill(lead(open_at(disk)))
    disk = disk.after_kill()
    log = open_at(disk, LeftBehind(watermark=Offset(watermark)))
    reads = disk.reads
    started = Follower(log, leader=None, leader_epoch=EPOCH, high_watermark=Offset(watermark))
    assert disk.reads == reads
    assert started.last_stable_offset == STABLE[watermark]


def test_a_log_without_markers_above_the_watermark_is_not_replayed() -> None:
    """After a clean stop: recovery has passed nothing. One look behind the watermark is enough."""
    disk = MemoryDisk()
    first = lead(open_at(disk))
    fill(first)
    first.append(produced(), all_acks=True, now_ms=NOW_MS)
    first.log.close()
    log = open_at(disk, LeftBehind(clean=True, watermark=Offset(9)))
    reads = disk.reads
    started = Follower(log, leader=None, leader_epoch=EPOCH, high_watermark=Offset(9))
    assert disk.reads - reads <= 3  # an index, a header
    assert started.last_stable_offset == STABLE[9]


def test_the_only_replica_does_not_look_for_them() -> None:
    """Its high watermark is not stored. All that it has is committed."""
    disk = MemoryDisk()
    first = lead(open_at(disk))
    fill(first)
    first.log.close()
    log = open_at(disk, LeftBehind(clean=True))
    reads = disk.reads
    only = Partition(log, leader_epoch=EPOCH, high_watermark=log.checkpointed_watermark)
    assert disk.reads == reads
    assert (only.high_watermark, only.last_stable_offset) == (9, STABLE[9])


@pytest.mark.parametrize("watermark", sorted(STABLE))
@pytest.mark.parametrize("batches_per_run", [1, 2, 9])
def test_a_follower_has_the_same_stable_offsets(
    leader: Partition, watermark: int, batches_per_run: int
) -> None:
    follower = Follower(open_at(MemoryDisk()), leader=LEADER, leader_epoch=EPOCH)
    views = [bytes(batch.view) for batch in leader.log.batches_from(Offset(0))]
    for at in range(0, len(views), batches_per_run):
        position = follower.position()
        assert position is not None
        run = b"".join(views[at : at + batches_per_run])
        data = PartitionData(high_watermark=watermark, log_start_offset=0, records=run)
        follower.take(position, data, now_ms=NOW_MS)
        follower.check()
    assert follower.high_watermark == watermark
    assert follower.last_stable_offset == STABLE[watermark]
    aborted = follower.log.aborted_within(from_offset=Offset(0), until_offset=Offset(9))
    assert [one.first_offset for one in aborted] == [1]


def test_a_transaction_whose_marker_is_cut_off_is_open_again(leader: Partition) -> None:
    leader.end()
    follower = Follower(
        leader.log, leader=FOLLOWER, leader_epoch=LeaderEpoch(4), high_watermark=Offset(5)
    )
    assert follower.last_stable_offset == 1
    restarted = follower.restart_at(
        leader_epoch=LeaderEpoch(4), leader_start=Offset(0), leader_end=Offset(5)
    )
    follower.check()
    assert restarted
    assert (follower.log.end_offset, follower.last_stable_offset) == (5, 1)
    assert follower.log.producers.first_open_offset == 1


def test_markers_cost_nothing_where_nobody_notes_them(tmp_path: Path) -> None:
    log = open_at(MemoryDisk())
    partition = lead(log)
    fill(partition)
    assert log.producers.ended == []  # taken over by the partition
    foreign = open_at(MemoryDisk())
    for batch in log.batches_from(Offset(0)):
        foreign.append((BatchView(memoryview(bytearray(batch.view))),), now_ms=NOW_MS)
    assert foreign.producers.ended == []


def test_a_new_leader_verifies_an_open_transaction_again(leader: Partition) -> None:
    """The guards of another leader are not known: what it had verified counts no more."""
    leader.end()
    after = lead(leader.log, high_watermark=9)
    data = produced(1, producer_id=7, epoch=0, sequence=4, transactional=True)
    refusal = after.append(data, all_acks=True, now_ms=NOW_MS, guard=Guard())
    assert isinstance(refusal, Refusal)
    write(after, 7, sequence=4)


def test_a_follower_that_restarts_behind_its_log_forgets_the_markers_in_it(
    leader: Partition,
) -> None:
    leader.end()
    follower = Follower(leader.log, leader=LEADER, leader_epoch=EPOCH, high_watermark=Offset(4))
    assert follower.last_stable_offset == STABLE[4]
    follower.restart_at(leader_epoch=EPOCH, leader_start=Offset(20), leader_end=Offset(30))
    follower.check()
    assert follower.uncommitted_ends == ()
    assert follower.last_stable_offset == 20
