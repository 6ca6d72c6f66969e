"""A follower writes the producers of its log to disk as its leader does, and knows them by that."""

import pytest

from penstock.log.producer_snapshot import decode_snapshot
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerId
from penstock.replication.leader import Refusal
from penstock.replication.partition import Appended, Partition
from rig.memory_disk import MemoryDisk
from rig.produced import NOW_MS, produced
from rig.replicas import ONE, TWO, catch_up, contents, follow, lead, open_replica

FOLDER = "/t-0"
SEGMENT_BYTES = 500  # of a few batches
EARLY, LATE = ProducerId(7), ProducerId(8)


def put(leader: Partition, producer: ProducerId, sequence: int) -> Appended | Refusal:
    batch = produced(producer_id=producer, epoch=0, sequence=sequence)
    return leader.append(batch, all_acks=False, now_ms=NOW_MS)


def snapshots(disk: MemoryDisk) -> dict[str, bytes]:
    names = [name for name in disk.names(FOLDER) if name.endswith(".snapshot")]
    return {name: disk.read(f"{FOLDER}/{name}") for name in names}


@pytest.mark.parametrize("fetched_each", [True, False], ids=["batch by batch", "in one run"])
def test_snapshots_of_a_follower_are_those_of_its_leader(fetched_each: bool) -> None:
    ours, its = MemoryDisk(), MemoryDisk()
    leader = lead(open_replica(ours, segment_bytes=SEGMENT_BYTES), replicas=(ONE, TWO))
    follower = follow(open_replica(its, segment_bytes=SEGMENT_BYTES))
    for number in range(30):
        put(leader, LATE if number > 20 else EARLY, number % 21)
        if fetched_each:
            catch_up(leader, follower)
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)
    assert len(snapshots(its)) == len(leader.log.segments) - 1 > 3
    assert snapshots(its) == snapshots(ours)
    newest = max(snapshots(its))
    assert list(decode_snapshot(snapshots(its)[newest])) == [EARLY, LATE]


def test_a_killed_follower_knows_by_its_snapshot_who_wrote_what_is_deleted() -> None:
    """It is the next leader: a batch that comes again is a duplicate, and is not appended."""
    disk = MemoryDisk()
    leader = lead(segment_bytes=SEGMENT_BYTES, replicas=(ONE, TWO), in_sync=(ONE, TWO))
    follower = follow(open_replica(disk, segment_bytes=SEGMENT_BYTES))
    for sequence in range(3):
        put(leader, EARLY, sequence)
    for sequence in range(10):
        put(leader, LATE, sequence)
    catch_up(leader, follower)
    start = follower.log.segments[1].base_offset
    leader.advance_start(start)
    catch_up(leader, follower)
    follower.log.sync()
    while follower.log.drop_oldest():
        pass
    assert follower.log.start_offset == start > 3

    again = open_replica(
        disk.after_kill(), segment_bytes=SEGMENT_BYTES, start_offset=start, recovery_point=start
    )
    assert again.producers.by_id[EARLY] == leader.log.producers.by_id[EARLY]
    elected = lead(again, epoch=2)
    for producer, sequence, offset in ((EARLY, 2, 2), (LATE, 9, 12)):
        repeated = put(elected, producer, sequence)
        assert isinstance(repeated, Appended), repeated
        assert (repeated.is_duplicate, repeated.base_offset) == (True, offset)
    refused = put(elected, EARLY, 5)
    assert isinstance(refused, Refusal), refused
    assert refused.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert elected.log.end_offset == 13
