"""A follower becomes what its leader is: runs, divergence, watermark, start, errors."""

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import CorruptRun
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_replay import BATCHES_PER_STEP
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.layout import INT32, LEADER_EPOCH_POSITION
from penstock.replication.follower import Follower, Position, Taken
from penstock.replication.partition import Partition
from penstock.sim.replication.serving import answer_fetch
from penstock.wire.messages.fetch import EpochEndOffset, PartitionData
from penstock.world.errors import DiskError
from rig.logs import open_log
from rig.memory_disk import Crashed, MemoryDisk
from rig.produced import NOW_MS, produced
from rig.replicas import (
    ONE,
    TWO,
    append,
    catch_up,
    contents,
    fetch_once,
    fetched,
    follow,
    lead,
    open_replica,
)

CALLS_MAX = 200


def two(**settings: object) -> tuple[Partition, Follower]:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO), **settings)
    return leader, follow(**settings)


def position_of(follower: Follower) -> Position:
    position = follower.position()
    assert position is not None
    return position


def refuse(follower: Follower, code: int) -> Taken:
    data = PartitionData(error_code=code, high_watermark=-1, records=b"")
    return follower.take(position_of(follower), data, now_ms=NOW_MS)


def epochs(follower: Follower) -> list[tuple[int, int]]:
    return [(one.epoch, one.start_offset) for one in follower.log.epochs.entries]


# Runs and the watermark


def test_a_follower_holds_the_leaders_bytes() -> None:
    leader, follower = two()
    for count in (3, 1, 7):
        append(leader, count)
    assert catch_up(leader, follower) == [Taken.APPENDED, Taken.UNCHANGED]
    assert contents(follower.log) == contents(leader.log)
    assert epochs(follower) == [(1, 0)]


def test_a_record_is_acked_when_the_follower_asks_for_the_next_one() -> None:
    leader, follower = two()
    append(leader, 3)
    fetch_once(leader, follower)
    assert (leader.high_watermark, follower.high_watermark) == (0, 0)
    fetch_once(leader, follower)
    assert (leader.high_watermark, follower.high_watermark) == (3, 3)


def test_a_batch_that_does_not_fit_into_the_reply_comes_with_the_next_one() -> None:
    leader, follower = two()
    for _ in range(3):
        append(leader)
    size_bytes = leader.log.size_bytes // 3
    taken = fetch_once(leader, follower, size_bytes_max=size_bytes + 20)
    assert (taken, follower.log.end_offset) == (Taken.APPENDED, 1)
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)


def test_the_watermark_is_not_above_the_followers_own_end() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE,))
    for _ in range(3):
        append(leader)
    follower = follow()
    fetch_once(leader, follower, size_bytes_max=leader.log.size_bytes // 3)
    assert (leader.high_watermark, follower.high_watermark) == (3, 1)


def test_the_watermark_does_not_go_back_with_a_leader_that_knows_less() -> None:
    leader, follower = two()
    append(leader, 5)
    catch_up(leader, follower)
    assert follower.high_watermark == 5
    follower.change_leader(leader=ONE, leader_epoch=LeaderEpoch(2), partition_epoch=1)
    later = lead(leader.log, epoch=2, in_sync=(ONE, TWO), high_watermark=1)
    append(later)
    fetch_once(later, follower)
    assert follower.high_watermark == 5


def test_a_follower_that_starts_has_the_watermark_it_knew() -> None:
    leader, follower = two()
    append(leader, 5)
    catch_up(leader, follower)
    assert follow(follower.log, high_watermark=5).high_watermark == 5
    assert follow(follower.log, high_watermark=9).high_watermark == 5
    assert follow(follower.log).high_watermark == 0


def test_readers_at_a_follower_stop_at_its_own_watermark() -> None:
    leader, follower = two()
    append(leader, 5)
    fetch_once(leader, follower)
    bounds = {"size_bytes_max": 999, "oversized_first": True, "committed_only": False}
    assert follower.read(0, **bounds) is None  # type: ignore[arg-type]
    fetch_once(leader, follower)
    assert follower.read(0, **bounds) is not None  # type: ignore[arg-type]


def test_the_new_leader_has_the_producers_of_the_old_one() -> None:
    leader, follower = two()
    for sequence in range(7):
        batch = produced(1, producer_id=5, epoch=0, sequence=sequence)
        leader.append(batch, all_acks=True, now_ms=NOW_MS)
    catch_up(leader, follower)
    follower.end()
    after = lead(follower.log, epoch=2, in_sync=(ONE,), high_watermark=follower.high_watermark)
    again = after.append(
        produced(1, producer_id=5, epoch=0, sequence=6), all_acks=True, now_ms=NOW_MS
    )
    assert again.base_offset == 6  # type: ignore[union-attr]
    gap = after.append(
        produced(1, producer_id=5, epoch=0, sequence=9), all_acks=True, now_ms=NOW_MS
    )
    assert gap.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # type: ignore[union-attr]


# Replies that came too late


def test_a_reply_of_an_older_leader_epoch_is_dropped() -> None:
    leader, follower = two()
    append(leader, 2)
    asked = position_of(follower)
    data = PartitionData(high_watermark=2, log_start_offset=0, records=contents(leader.log)[0])
    follower.change_leader(leader=ONE, leader_epoch=LeaderEpoch(2), partition_epoch=1)
    assert follower.take(asked, data, now_ms=NOW_MS) is Taken.STALE
    assert follower.log.end_offset == 0


def test_a_reply_to_another_position_is_dropped() -> None:
    leader, follower = two()
    append(leader, 2)
    asked = position_of(follower)
    data = PartitionData(high_watermark=2, log_start_offset=0, records=contents(leader.log)[0])
    assert follower.take(asked, data, now_ms=NOW_MS) is Taken.APPENDED
    assert follower.take(asked, data, now_ms=NOW_MS) is Taken.STALE
    assert contents(follower.log) == contents(leader.log)


def test_watermark_and_start_in_a_second_reply_to_one_position_are_taken() -> None:
    """The leader takes them to be known from then on, and does not say them again."""
    leader, follower = two()
    append(leader, 2)
    append(leader, 2)
    asked = position_of(follower)
    records = b"".join(contents(leader.log))
    first = PartitionData(high_watermark=0, log_start_offset=0, records=records)
    second = PartitionData(high_watermark=4, log_start_offset=2, records=records)
    assert follower.take(asked, first, now_ms=NOW_MS) is Taken.APPENDED
    assert follower.take(asked, second, now_ms=NOW_MS, moves_start=False) is Taken.STALE
    follower.check()
    assert follower.high_watermark == 4
    assert follower.start_behind == 2
    assert contents(follower.log) == contents(leader.log)


def test_a_late_reply_moves_no_watermark_of_a_log_that_was_cut() -> None:
    """Whether the two logs agree is not known any more."""
    leader, follower = two()
    append(leader, 2)
    append(leader, 2)
    catch_up(leader, follower)
    follower = follow(follower.log, epoch=2)
    asked = position_of(follower)
    diverging = PartitionData(
        high_watermark=0,
        log_start_offset=0,
        diverging_epoch=EpochEndOffset(epoch=1, end_offset=2),
        records=b"",
    )
    assert follower.take(asked, diverging, now_ms=NOW_MS) is Taken.TRUNCATED
    late = PartitionData(high_watermark=4, log_start_offset=0, records=b"")
    assert follower.take(asked, late, now_ms=NOW_MS) is Taken.STALE
    assert (follower.high_watermark, follower.log.end_offset) == (0, 2)


def test_a_replica_that_does_not_follow_any_more_takes_nothing() -> None:
    _, follower = two()
    asked = position_of(follower)
    follower.end()
    data = PartitionData(high_watermark=0, log_start_offset=0, records=b"")
    assert follower.take(asked, data, now_ms=NOW_MS) is Taken.STALE
    assert follower.position() is None


def test_metadata_that_are_older_do_not_bring_an_old_leader_back() -> None:
    _, follower = two()
    follower.change_leader(leader=TWO, leader_epoch=LeaderEpoch(3), partition_epoch=5)
    follower.change_leader(leader=ONE, leader_epoch=LeaderEpoch(2), partition_epoch=4)
    assert (follower.leader, follower.leader_epoch) == (TWO, 3)


def test_without_a_leader_nothing_is_asked() -> None:
    _, follower = two()
    follower.change_leader(leader=None, leader_epoch=LeaderEpoch(2), partition_epoch=1)
    assert follower.position() is None


# Divergence


def diverged(*, common: int, theirs: int, ours: int) -> tuple[Partition, Follower]:
    """Two logs that agree up to `common`; then one has records of epoch 1, the other of epoch 2."""
    first = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    other = follow()
    if common:
        append(first, common)
        catch_up(first, other)
    for _ in range(ours):
        append(first)
    first.end()
    leader = lead(other.log, epoch=2, in_sync=(ONE, TWO), high_watermark=other.high_watermark)
    for _ in range(theirs):
        append(leader)
    return leader, follow(first.log, epoch=2, high_watermark=first.high_watermark)


@pytest.mark.parametrize("common", [0, 3])
@pytest.mark.parametrize("theirs", [0, 1, 5])
@pytest.mark.parametrize("ours", [0, 1, 5])
def test_what_the_leader_does_not_have_is_cut_off(common: int, theirs: int, ours: int) -> None:
    leader, follower = diverged(common=common, theirs=theirs, ours=ours)
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)
    assert follower.log.epochs.entries == tuple(
        one for one in leader.log.epochs.entries if one.start_offset < leader.log.end_offset
    )
    assert follower.cut_below_watermark is None


def test_logs_of_many_epochs_agree_after_some_rounds() -> None:
    """One wrote in epochs 1, 3 and 5, the other in 2, 4 and 6; they agree below offset 2."""
    left, right = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO)), follow()
    append(left, 2)
    catch_up(left, right)
    left.end()
    right.end()
    logs = (left.log, right.log)
    for epoch in range(2, 8):
        append(lead(logs[epoch % 2], epoch=epoch, in_sync=(ONE,)), 2)
    leader = lead(logs[0], epoch=8, in_sync=(ONE, TWO))
    follower = follow(logs[1], epoch=8)
    rounds = catch_up(leader, follower)
    assert rounds.count(Taken.TRUNCATED) > 1
    assert contents(follower.log) == contents(leader.log)


def test_an_epoch_in_which_nothing_was_written_is_forgotten() -> None:
    first = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    append(first, 3)
    other = follow()
    catch_up(first, other)
    lead(first.log, epoch=2, in_sync=(ONE,))  # leads, and writes nothing
    leader = lead(other.log, epoch=3, in_sync=(ONE, TWO))
    follower = follow(first.log, epoch=3)
    assert epochs(follower) == [(1, 0)]
    assert position_of(follower).last_fetched_epoch == 1
    append(leader)
    catch_up(leader, follower)
    assert epochs(follower) == [(1, 0), (3, 3)]


def test_a_cut_below_the_watermark_is_reported() -> None:
    """After an unclean election: the leader lacks what was committed."""
    first = lead(replicas=(ONE,), in_sync=(ONE,))
    append(first, 5)
    assert first.high_watermark == 5
    leader = lead(open_replica(), epoch=2, replicas=(ONE, TWO), in_sync=(ONE, TWO))
    append(leader)
    follower = follow(first.log, epoch=2, high_watermark=5)
    assert fetch_once(leader, follower) is Taken.TRUNCATED
    assert follower.cut_below_watermark == 5
    assert follower.high_watermark == 0
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)


def test_an_end_that_makes_no_sense_does_no_harm() -> None:
    leader, follower = two()
    append(leader, 5)
    catch_up(leader, follower)
    data = PartitionData(
        high_watermark=5,
        log_start_offset=0,
        records=b"",
        diverging_epoch=EpochEndOffset(epoch=-1, end_offset=-1),
    )
    assert follower.take(position_of(follower), data, now_ms=NOW_MS) is Taken.REFUSED
    assert follower.log.end_offset == 5


# Where the leader's log begins


def test_the_start_of_the_leaders_log_travels() -> None:
    leader, follower = two()
    for _ in range(5):
        append(leader)
    catch_up(leader, follower)
    leader.advance_start(Offset(3))
    fetch_once(leader, follower)
    assert follower.log.start_offset == 3
    fetch_once(leader, follower)
    assert leader.low_watermark(lambda node: True) == 3


def test_a_start_above_the_followers_watermark_waits_for_it() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE,))
    for _ in range(5):
        append(leader)
    follower = follow()
    fetch_once(leader, follower, size_bytes_max=leader.log.size_bytes // 5)
    data = PartitionData(high_watermark=0, log_start_offset=4, records=b"")
    assert follower.take(position_of(follower), data, now_ms=NOW_MS) is Taken.UNCHANGED
    assert follower.log.start_offset == 1


def test_a_follower_below_the_leaders_start_begins_anew_there() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE,))
    for _ in range(5):
        append(leader)
    leader.advance_start(Offset(3))
    follower = follow()
    assert fetch_once(leader, follower) is Taken.OUT_OF_RANGE
    assert follower.restart_at(
        leader_epoch=LeaderEpoch(1), leader_start=Offset(3), leader_end=Offset(5)
    )
    follower.check()
    assert position_of(follower).fetch_offset == 3
    catch_up(leader, follower)
    assert (follower.log.start_offset, follower.log.end_offset) == (3, 5)
    assert contents(follower.log) == contents(leader.log)


def test_a_follower_beyond_the_leaders_end_is_cut_to_it() -> None:
    follower = follow()
    source = lead(replicas=(ONE, TWO), in_sync=(ONE,))
    for _ in range(5):
        append(source)
    catch_up(source, follower)
    assert follower.restart_at(
        leader_epoch=LeaderEpoch(1), leader_start=Offset(0), leader_end=Offset(3)
    )
    follower.check()
    assert (follower.log.end_offset, follower.high_watermark) == (3, 3)
    assert follower.cut_below_watermark == 5


def test_a_leader_that_has_grown_meanwhile_is_asked_again() -> None:
    follower = follow()
    assert follower.restart_at(
        leader_epoch=LeaderEpoch(1), leader_start=Offset(0), leader_end=Offset(3)
    )
    assert position_of(follower).fetch_offset == 0


def test_an_answer_about_the_range_of_an_older_leader_is_dropped() -> None:
    follower = follow(epoch=2)
    assert not follower.restart_at(
        leader_epoch=LeaderEpoch(1), leader_start=Offset(7), leader_end=Offset(9)
    )
    assert follower.log.end_offset == 0


# Records that are deleted


def emptied(end: int = 150) -> PartitionLog:
    """The log of a leader of epoch 3 whose records are all deleted."""
    before = lead(epoch=3, in_sync=(ONE,), min_insync_replicas=1)
    append(before, end)
    before.advance_start(Offset(end))
    return before.log


def elected_uncleanly(end: int, *, start: int = 0) -> Partition:
    """It has the first 100 records of epoch 3, and its own of epoch 5 behind them."""
    before = lead(epoch=3, in_sync=(ONE,), min_insync_replicas=1)
    append(before, 100)
    leader = lead(before.log, epoch=5, in_sync=(ONE,), min_insync_replicas=1, high_watermark=100)
    append(leader, end - 100)
    leader.advance_start(Offset(start))
    return leader


@pytest.mark.parametrize("end", [120, 150, 200])
def test_a_log_without_records_knows_the_epoch_of_its_last_one(end: int) -> None:
    leader = elected_uncleanly(end)
    follower = follow(emptied(), epoch=5, high_watermark=150)
    assert fetch_once(leader, follower) is Taken.TRUNCATED
    assert (follower.log.start_offset, follower.log.end_offset) == (100, 100)
    assert follower.cut_below_watermark == 150
    catch_up(leader, follower)
    assert (follower.log.start_offset, follower.log.end_offset) == (100, end)


@pytest.mark.parametrize("end", [120, 200])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolled", [True, False])
def test_it_knows_the_epoch_after_a_restart(end: int, clean: bool, rolled: bool) -> None:
    disk = MemoryDisk()
    before = lead(open_replica(disk), epoch=3, in_sync=(ONE,), min_insync_replicas=1)
    append(before, 150)
    lead(before.log, epoch=4, in_sync=(ONE,), high_watermark=150)  # leads, and writes nothing
    if rolled:
        before.log.roll()
    before.log.advance_start(Offset(150))
    if clean:
        before.log.close()
    recovery_point = before.log.recovery_point
    log = open_replica(
        disk.after_kill(), clean=clean, recovery_point=recovery_point, start_offset=150
    )
    assert (log.start_offset, log.end_offset) == (150, 150)
    follower = follow(log, epoch=5, high_watermark=150)
    assert position_of(follower).last_fetched_epoch == 3
    assert fetch_once(elected_uncleanly(end), follower) is Taken.TRUNCATED
    assert (log.start_offset, log.end_offset) == (100, 100)


def test_a_cut_to_the_start_keeps_the_epoch_of_the_last_deleted_record() -> None:
    """The leader's epochs are 3, 4 from offset 100 on, and 6; the other's are 3, and 5 from 150."""
    log = emptied()
    append(lead(log, epoch=5, in_sync=(ONE,), min_insync_replicas=1, high_watermark=150), 10)
    earlier = lead(epoch=3, in_sync=(ONE,), min_insync_replicas=1)
    append(earlier, 100)
    append(lead(earlier.log, epoch=4, in_sync=(ONE,), min_insync_replicas=1), 20)
    leader = lead(earlier.log, epoch=6, in_sync=(ONE,), min_insync_replicas=1)
    append(leader)
    follower = follow(log, epoch=6, high_watermark=150)
    assert fetch_once(leader, follower) is Taken.TRUNCATED
    assert (follower.log.start_offset, follower.log.end_offset) == (150, 150)
    catch_up(leader, follower)
    assert (follower.log.start_offset, follower.log.end_offset) == (100, 121)


def test_a_log_without_records_goes_on_where_the_leader_has_what_was_deleted() -> None:
    first = lead(epoch=3, replicas=(ONE, TWO), in_sync=(ONE, TWO))
    append(first, 150)
    other = follow(epoch=3)
    catch_up(first, other)
    first.advance_start(Offset(150))
    leader = lead(other.log, epoch=5, in_sync=(ONE, TWO), high_watermark=150)
    follower = follow(first.log, epoch=5, high_watermark=150)
    append(leader, 3)
    assert catch_up(leader, follower) == [Taken.APPENDED, Taken.UNCHANGED]
    assert (follower.log.start_offset, follower.log.end_offset) == (150, 153)
    assert epochs(follower) == [(3, 149), (5, 150)]


def test_where_the_leader_has_deleted_too_a_log_without_records_begins_at_its_start() -> None:
    leader = elected_uncleanly(120, start=110)
    follower = follow(emptied(), epoch=5, high_watermark=150)
    assert fetch_once(leader, follower) is Taken.TRUNCATED
    catch_up(leader, follower)
    assert (follower.log.start_offset, follower.log.end_offset) == (110, 120)


def test_the_last_deleted_record_is_of_another_epoch_than_the_leaders() -> None:
    """Both logs are [150, 150): the leader's last record was of epoch 2, the other's of epoch 3."""
    before = lead(epoch=2, in_sync=(ONE,), min_insync_replicas=1)
    append(before, 150)
    leader = lead(before.log, epoch=5, in_sync=(ONE,), min_insync_replicas=1, high_watermark=150)
    leader.advance_start(Offset(150))
    follower = follow(emptied(), epoch=5, high_watermark=150)
    assert fetch_once(leader, follower) is Taken.TRUNCATED
    assert fetch_once(leader, follower) is Taken.OUT_OF_RANGE
    assert follower.restart_at(
        leader_epoch=LeaderEpoch(5), leader_start=Offset(150), leader_end=Offset(150)
    )
    assert fetch_once(leader, follower) is Taken.UNCHANGED


def test_without_a_known_epoch_a_log_beyond_the_leaders_begins_at_the_leaders_start() -> None:
    leader = elected_uncleanly(120, start=30)
    log = open_replica()
    log.truncate_fully_and_start_at(Offset(150))
    follower = follow(log, epoch=5)
    assert fetch_once(leader, follower) is Taken.OUT_OF_RANGE
    assert follower.restart_at(
        leader_epoch=LeaderEpoch(5), leader_start=Offset(30), leader_end=Offset(120)
    )
    catch_up(leader, follower)
    assert (follower.log.start_offset, follower.log.end_offset) == (30, 120)


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_in_a_cut_below_the_start_skips_nothing(power: bool) -> None:
    for crash_at in range(CALLS_MAX):
        disk = MemoryDisk()
        disk.make_directory("/data")
        disk.sync_directory("/")
        opened = open_log(disk)
        before = lead(opened.log, epoch=3, in_sync=(ONE,), min_insync_replicas=1)
        for _ in range(15):
            append(before, 10)
        before.advance_start(Offset(150))
        later = lead(opened.log, epoch=4, in_sync=(ONE,), high_watermark=150)
        for _ in range(5):
            append(later, 10)
        opened.log.sync()
        opened.directory.save_checkpoints()
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        is_done = False
        with contextlib.suppress(Crashed):
            opened.log.truncate_to(Offset(100))
            is_done = True
        left = disk.after_power_loss(random.Random(crash_at)) if power else disk.after_kill()
        again = open_log(left).log
        leader, follower = elected_uncleanly(200), follow(again, epoch=5)
        catch_up(leader, follower)
        assert (again.start_offset, again.end_offset) == (100, 200), crash_at
        if is_done:
            return
    pytest.fail(f"the cut takes more than {CALLS_MAX} calls")


# Errors


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_refused_fetch_is_tried_again_later(code: ErrorCode) -> None:
    follower = follow()
    assert refuse(follower, code) is Taken.REFUSED
    assert follower.error is code


def test_a_code_that_is_not_known_here_is_an_unknown_error() -> None:
    follower = follow()
    assert refuse(follower, 9_999) is Taken.REFUSED
    assert follower.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_damaged_batch_changes_nothing() -> None:
    leader, follower = two()
    append(leader)
    append(leader)
    run = bytearray(b"".join(contents(leader.log)))
    run[-1] ^= 1
    data = PartitionData(high_watermark=0, log_start_offset=0, records=run)
    with pytest.raises(CorruptRun):
        follower.take(position_of(follower), data, now_ms=NOW_MS)
    follower.check()
    assert follower.log.end_offset == 0
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)


@pytest.mark.parametrize("epoch", [-2, -(2**31)])
def test_an_epoch_that_no_leader_has_is_damage(epoch: int) -> None:
    """No checksum covers it, and recovery would cut the log there."""
    leader, follower = two()
    append(leader)
    append(leader)
    run = bytearray(b"".join(contents(leader.log)))
    INT32.pack_into(run, LEADER_EPOCH_POSITION, epoch)
    data = PartitionData(high_watermark=0, log_start_offset=0, records=run)
    with pytest.raises(CorruptRun, match=f"leader epoch {epoch}"):
        follower.take(position_of(follower), data, now_ms=NOW_MS)
    assert follower.log.end_offset == 0


def test_what_a_full_disk_has_taken_of_a_run_is_known() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    for _ in range(9):
        append(leader)
    disk = MemoryDisk()
    follower = follow(open_replica(disk, segment_bytes=200))
    disk.faults.fail_at = disk.faults.calls + 12
    while disk.faults.calls <= disk.faults.fail_at:
        with contextlib.suppress(DiskError):
            fetch_once(leader, follower)
        follower.check()
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)


# Syncs


def test_a_follower_names_only_synced_records_where_acks_wait_for_syncs() -> None:
    leader, follower = two(penstock_ack_fsync=True)
    append(leader, 3)
    assert fetch_once(leader, follower) is Taken.APPENDED
    assert follower.wants_sync
    assert follower.position() is None
    follower.log.sync()
    follower.synced()
    assert not follower.wants_sync
    assert position_of(follower).fetch_offset == 3


def test_fewer_records_than_flush_messages_are_named_unsynced() -> None:
    leader, follower = two(flush_messages=3)
    append(leader, 2)
    fetch_once(leader, follower)
    assert position_of(follower).fetch_offset == 2
    append(leader, 2)
    fetch_once(leader, follower)
    assert follower.position() is None


def test_after_a_start_the_log_is_synced_before_the_first_fetch() -> None:
    disk = MemoryDisk()
    source = lead(open_replica(disk), replicas=(ONE,), in_sync=(ONE,))
    append(source, 3)
    log = open_replica(disk.after_kill(), penstock_ack_fsync=True)
    follower = follow(log, high_watermark=1)
    assert follower.wants_sync
    assert follower.position() is None
    log.sync()
    follower.synced()
    assert position_of(follower).fetch_offset == 3


def test_what_a_follower_had_not_synced_when_it_was_killed_is_synced_before_it_is_named() -> None:
    disk = MemoryDisk()
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE,))
    append(leader, 3)
    catching_up = follow(open_replica(disk, penstock_ack_fsync=True))
    fetch_once(leader, catching_up)
    assert catching_up.high_watermark == 3
    log = open_replica(disk.after_kill(), penstock_ack_fsync=True)
    started = follow(log, high_watermark=catching_up.high_watermark)
    assert started.wants_sync
    assert started.position() is None


def test_committed_records_are_synced_too_when_a_setting_begins_to_ask_for_it() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE,))
    append(leader, 3)
    follower = follow()
    fetch_once(leader, follower)
    assert follower.high_watermark == 3
    follower.reconfigure(TopicSettings(penstock_ack_fsync=True))
    assert follower.position() is None


def test_a_setting_that_asks_for_syncs_holds_for_what_was_appended_before() -> None:
    leader, follower = two()
    append(leader, 3)
    fetch_once(leader, follower)
    follower.reconfigure(TopicSettings(penstock_ack_fsync=True))
    assert follower.position() is None
    follower.reconfigure(TopicSettings())
    assert position_of(follower).fetch_offset == 3


# Any history of two replicas


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "fetch", "swap"]), st.integers(1, 4)), max_size=25
    )
)
def test_two_replicas_that_change_places_agree_in_the_end(steps: list[tuple[str, int]]) -> None:
    """Without acks, each may lead without what the other wrote; below the watermarks they agree."""
    epoch = 1
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    follower = follow()
    for kind, number in steps:
        if kind == "append":
            append(leader, number)
        elif kind == "fetch":
            fetch_once(leader, follower, size_bytes_max=number * 90)
        elif follower.high_watermark >= leader.high_watermark:  # it has what was committed
            epoch += 1
            leader.end()
            follower.end()
            before = (leader.log, leader.high_watermark)
            leader = lead(
                follower.log,
                epoch=epoch,
                in_sync=(ONE, TWO),
                high_watermark=follower.high_watermark,
            )
            follower = follow(before[0], epoch=epoch, high_watermark=before[1])
        assert follower.cut_below_watermark is None
    catch_up(leader, follower)
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)
    assert leader.high_watermark == follower.high_watermark == leader.log.end_offset
    fetched(leader, TWO, leader.log.end_offset)


# Long truncations


def far_apart() -> tuple[Partition, Follower]:
    """The leader has half of what the follower has, of a producer whose state needs a replay."""
    former = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    for number in range(4 * BATCHES_PER_STEP):
        data = produced(producer_id=7, epoch=0, sequence=number)
        former.append(data, all_acks=False, now_ms=NOW_MS)
    follower = follow()
    catch_up(former, follower)
    former.end()
    former.log.truncate_to(Offset(2 * BATCHES_PER_STEP))
    leader = lead(former.log, epoch=2, in_sync=(ONE, TWO))
    append(leader)
    follower.change_leader(leader=ONE, leader_epoch=LeaderEpoch(2), partition_epoch=1)
    return leader, follower


def take_in_steps(leader: Partition, follower: Follower) -> Taken:
    asked = position_of(follower)
    data, _ = answer_fetch(
        leader, TWO, asked, broker_epoch=7, size_bytes_max=1 << 20, now_ms=NOW_MS
    )
    return follower.take(asked, data, now_ms=NOW_MS, in_steps=True)


def test_a_long_truncation_is_done_in_steps_and_nothing_is_asked_meanwhile() -> None:
    leader, follower = far_apart()
    end_offset = follower.log.end_offset
    taken = take_in_steps(leader, follower)
    steps = 0
    while taken is Taken.CUTTING:
        assert (follower.position(), follower.log.end_offset) == (None, end_offset)
        follower.check()
        steps += 1
        taken = follower.cut_further()
    assert steps > 1
    assert taken is Taken.TRUNCATED
    assert follower.log.end_offset == 2 * BATCHES_PER_STEP
    catch_up(leader, follower)
    assert contents(follower.log) == contents(leader.log)


def test_a_truncation_that_is_being_prepared_is_given_up_with_its_leader() -> None:
    leader, follower = far_apart()
    end_offset = follower.log.end_offset
    assert take_in_steps(leader, follower) is Taken.CUTTING
    follower.change_leader(leader=ONE, leader_epoch=LeaderEpoch(3), partition_epoch=2)
    assert not follower.is_cutting
    assert follower.cut_further() is Taken.STALE
    assert position_of(follower).fetch_offset == end_offset
