"""A follower whose records are all below the start of the leader's log, which has deleted its own:
nothing is left to tell whether they were the same.
"""

from penstock.replication.follower import Follower, Taken
from penstock.replication.partition import Partition
from rig.produced import NOW_MS, produced
from rig.replicas import (
    ONE,
    THREE,
    TWO,
    append,
    catch_up,
    change,
    fetch_once,
    follow,
    lead,
    members,
)


def leader_without_records() -> Partition:
    """Its log is [5, 5), where records of epoch 3 were."""
    leader = lead(epoch=3, in_sync=(ONE, THREE), min_insync_replicas=1)
    append(leader, 5)
    leader.follower_fetched(THREE, offset=5, broker_epoch=7, log_start_offset=0, now_ms=NOW_MS)
    leader.advance_start(leader.high_watermark)
    assert (leader.log.start_offset, leader.log.end_offset) == (5, 5)
    return leader


def deposed(count: int, *, committed: int) -> Follower:
    """It led epoch 1 and has `count` records of it, of which so many were committed."""
    before = lead(epoch=1, in_sync=(ONE,), min_insync_replicas=1)
    for _ in range(count):
        append(before)
    return follow(before.log, epoch=3, high_watermark=committed)


def test_what_is_not_known_as_committed_is_dropped() -> None:
    for count in (5, 8):
        leader, follower = leader_without_records(), deposed(count, committed=2)
        catch_up(leader, follower)
        assert (follower.log.start_offset, follower.log.end_offset) == (5, 5)
        assert follower.high_watermark == 5
        assert follower.log.epochs.latest is None  # or another leader would be asked about it


def test_records_of_the_reply_are_appended_where_the_others_were_dropped() -> None:
    leader, follower = leader_without_records(), deposed(5, committed=2)
    append(leader, 2)
    assert fetch_once(leader, follower) is Taken.APPENDED
    assert (follower.log.start_offset, follower.log.end_offset) == (5, 7)
    assert [entry.epoch for entry in follower.log.epochs.entries] == [3]


def test_what_is_known_as_committed_goes_as_the_start_moves_and_its_producers_stay() -> None:
    before = lead(epoch=1, in_sync=(ONE,), min_insync_replicas=1)
    before.append(produced(5, producer_id=9, epoch=0, sequence=0), all_acks=False, now_ms=NOW_MS)
    leader, follower = leader_without_records(), follow(before.log, epoch=3, high_watermark=5)
    catch_up(leader, follower)
    assert (follower.log.start_offset, follower.log.end_offset) == (5, 5)
    assert 9 in follower.log.producers.by_id


def test_a_follower_joins_when_it_has_dropped_them() -> None:
    leader, follower = leader_without_records(), deposed(5, committed=2)
    asked = follower.position()
    assert asked is not None
    leader.follower_fetched(
        TWO, offset=5, broker_epoch=7, log_start_offset=asked.log_start_offset, now_ms=NOW_MS
    )
    assert change(leader) is None
    catch_up(leader, follower)
    fetch_once(leader, follower)
    wanted = change(leader)
    assert wanted is not None
    assert members(wanted) == (ONE, TWO, THREE)
