"""Damage in the log of a follower, found at its start, is repaired by its leader or refused.

The checksum of a batch does not cover its base offset and its leader epoch, in Apache Kafka's
format: an offset that looks like one behind a gap, and an epoch that is too early, are not found.
"""

import pytest

from penstock.log.errors import CorruptData
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.layout import HEADER_BYTES, LEADER_EPOCH_POSITION, SIZE_POSITION
from penstock.replication.follower import Follower, Taken
from penstock.replication.partition import Partition
from rig.memory_disk import MemoryDisk
from rig.produced import NOW_MS, produced
from rig.replicas import (
    ONE,
    TWO,
    append,
    catch_up,
    contents,
    fetch_once,
    follow,
    lead,
    open_replica,
)

BATCHES = 4
EPOCH = LeaderEpoch(2)
EPOCH_END = LEADER_EPOCH_POSITION + 4


def replicated(disk: MemoryDisk) -> tuple[Partition, list[int]]:
    """A leader in its second epoch, whose follower has all and was killed; where batches begin."""
    first = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    append(first, 2)
    first.end()
    leader = lead(first.log, epoch=EPOCH, in_sync=(ONE, TWO))
    for number in range(BATCHES - 1):
        data = produced(2, producer_id=7, epoch=0, sequence=2 * number)
        leader.append(data, all_acks=False, now_ms=NOW_MS)
    catch_up(leader, follow(open_replica(disk), epoch=EPOCH))
    starts = [0]
    for one in leader.log.batches_from(Offset(0)):
        starts.append(starts[-1] + one.size_bytes)
    return leader, starts


def flipped(disk: MemoryDisk, position: int, bit: int) -> MemoryDisk:
    [path] = [path for path in disk.files if path.endswith(".log")]
    left = disk.after_kill()
    left.files[path].data[position + bit // 8] ^= 1 << bit % 8
    return left


def repair(leader: Partition, follower: Follower) -> None:
    """As the fetcher does it."""
    rounds = 0
    while (taken := fetch_once(leader, follower)) is not Taken.UNCHANGED:
        if taken is Taken.OUT_OF_RANGE:
            follower.restart_at(
                leader_epoch=EPOCH,
                leader_start=leader.log.start_offset,
                leader_end=leader.log.end_offset,
            )
        rounds += 1
        assert rounds < 10, taken


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("synced", [False, True])
def test_a_flipped_bit_in_a_header_is_repaired_by_the_leader_or_refused(
    batch: int, synced: bool
) -> None:
    disk = MemoryDisk()
    leader, starts = replicated(disk)
    refused = 0
    for bit in range(8 * SIZE_POSITION, 8 * HEADER_BYTES):
        if LEADER_EPOCH_POSITION <= bit // 8 < EPOCH_END:
            continue
        left = flipped(disk, starts[batch], bit)
        try:
            log = open_replica(left, recovery_point=2 * BATCHES if synced else 0)
        except CorruptData:
            refused += 1
            continue
        assert not synced
        assert not log.recovery.intact
        follower = Follower(log, leader=ONE, leader_epoch=EPOCH)
        repair(leader, follower)
        assert contents(follower.log) == contents(leader.log), bit
    assert (refused > 0) == synced


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("bit", range(32))
def test_an_epoch_that_the_leader_cannot_have_is_not_kept(batch: int, bit: int) -> None:
    disk = MemoryDisk()
    leader, starts = replicated(disk)
    log = open_replica(flipped(disk, starts[batch] + LEADER_EPOCH_POSITION, bit))
    found = [one.leader_epoch for one in log.batches_from(Offset(0))]
    follower = Follower(log, leader=ONE, leader_epoch=EPOCH)
    repair(leader, follower)
    assert follower.log.end_offset == leader.log.end_offset
    if len(found) <= batch or found[batch] > EPOCH:
        assert contents(follower.log) == contents(leader.log)
        assert follower.log.epochs.entries == leader.log.epochs.entries
