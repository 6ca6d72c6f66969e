"""Which followers are in sync: when one joins, when one leaves, and what the controller answers."""

import pytest

from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch
from penstock.replication.followers import NO_BROKER_EPOCH, InSyncChange
from penstock.replication.partition import Partition
from rig.produced import NOW_MS
from rig.replicas import (
    LAG_MS_MAX,
    ONE,
    THREE,
    TWO,
    append,
    change,
    confirm,
    fetched,
    lead,
    members,
    tell,
)

LATER_MS = NOW_MS + LAG_MS_MAX + 1


def joining() -> tuple[Partition, InSyncChange]:
    """A leader that has asked for the third replica to join."""
    leader = lead(in_sync=(ONE, TWO))
    append(leader, 5)
    fetched(leader, TWO, 5)
    fetched(leader, THREE, 5)
    asked = change(leader)
    assert asked is not None
    assert members(asked) == (ONE, TWO, THREE)
    return leader, asked


# Joining


def test_a_follower_joins_when_it_has_reached_the_watermark() -> None:
    leader = lead(in_sync=(ONE, TWO))
    append(leader, 5)
    fetched(leader, TWO, 5)
    assert not fetched(leader, THREE, 4)
    assert change(leader) is None
    assert fetched(leader, THREE, 5)
    asked = change(leader)
    assert asked is not None
    assert (asked.leader_epoch, asked.partition_epoch) == (1, 0)


def test_a_follower_joins_only_when_it_has_reached_the_start_of_the_leader_epoch() -> None:
    before = lead(in_sync=(ONE,))
    append(before, 10)
    leader = lead(before.log, epoch=2, in_sync=(ONE, TWO), high_watermark=4)
    assert not fetched(leader, THREE, 6)  # above the watermark, which may be behind
    assert change(leader) is None
    assert fetched(leader, THREE, 10)


def test_a_join_names_the_broker_epoch_of_the_fetch() -> None:
    leader = lead(in_sync=(ONE, TWO))
    fetched(leader, THREE, 0, broker_epoch=41)
    asked = change(leader)
    assert asked is not None
    assert asked.members == ((ONE, NO_BROKER_EPOCH), (TWO, NO_BROKER_EPOCH), (THREE, 41))


def test_a_follower_that_the_metadata_do_not_allow_does_not_join() -> None:
    leader = lead(in_sync=(ONE, TWO))
    assert fetched(leader, THREE, 0)
    assert change(leader, can_join=(TWO,)) is None


def test_a_follower_under_load_joins_although_it_is_always_one_fetch_behind() -> None:
    leader = lead(in_sync=(ONE,))
    append(leader, 5)
    assert leader.commits_at_once
    fetched(leader, TWO, 0)
    append(leader)
    assert fetched(leader, TWO, 5)  # the end as of its previous fetch
    assert change(leader) is None
    append(leader)
    assert leader.high_watermark == 6  # it waits for this follower from now on
    assert fetched(leader, TWO, 6)
    asked = change(leader)
    assert asked is not None
    assert members(asked) == (ONE, TWO)


def test_a_follower_that_falls_behind_again_is_not_waited_for() -> None:
    leader = lead(in_sync=(ONE,))
    append(leader, 5)
    fetched(leader, TWO, 0)
    append(leader)
    fetched(leader, TWO, 5)
    change(leader)
    append(leader)
    assert leader.high_watermark == 6
    fetched(leader, TWO, 5)
    append(leader)
    assert leader.high_watermark == 8


def test_a_new_incarnation_is_not_waited_for() -> None:
    leader = lead(in_sync=(ONE,))
    append(leader, 5)
    fetched(leader, TWO, 0)
    append(leader)
    fetched(leader, TWO, 5)
    change(leader)
    append(leader)
    assert leader.high_watermark == 6
    fetched(leader, TWO, 5, broker_epoch=8)
    append(leader)
    assert leader.high_watermark == 8


def test_one_that_can_no_longer_join_is_not_waited_for() -> None:
    leader = lead(in_sync=(ONE,))
    append(leader, 5)
    fetched(leader, TWO, 0)
    append(leader)
    fetched(leader, TWO, 5)
    change(leader)
    append(leader)
    assert leader.high_watermark == 6
    change(leader, can_join=())
    assert leader.high_watermark == 7


def test_only_one_change_is_on_its_way() -> None:
    leader, asked = joining()
    assert change(leader) is None
    confirm(leader, asked)
    assert leader.in_sync_count == 3
    assert leader.partition_epoch == 1


# Leaving


def test_a_follower_that_was_not_caught_up_for_too_long_leaves() -> None:
    leader = lead()
    append(leader, 5)
    fetched(leader, TWO, 5)
    fetched(leader, THREE, 4)
    assert change(leader, now_ms=NOW_MS + LAG_MS_MAX) is None
    asked = change(leader, now_ms=LATER_MS)
    assert asked is not None
    assert members(asked) == (ONE, TWO)


def test_a_follower_that_keeps_up_with_a_steady_load_stays() -> None:
    leader = lead()
    now_ms = NOW_MS
    for _ in range(10):
        end = leader.log.end_offset
        append(leader, 3)
        now_ms += LAG_MS_MAX // 2
        fetched(leader, TWO, end, now_ms=now_ms)
        fetched(leader, THREE, leader.log.end_offset, now_ms=now_ms)
        assert change(leader, now_ms=now_ms) is None


def test_a_silent_follower_that_has_everything_stays() -> None:
    """It is the controller that fences a broker which is gone."""
    leader = lead()
    append(leader, 5)
    fetched(leader, TWO, 5)
    fetched(leader, THREE, 5)
    assert change(leader, now_ms=LATER_MS * 2) is None


def test_in_sync_followers_of_a_new_leader_have_time_to_fetch() -> None:
    before = lead(in_sync=(ONE,))
    append(before, 10)
    leader = lead(before.log, epoch=2, now_ms=LATER_MS)
    assert change(leader, now_ms=LATER_MS + LAG_MS_MAX) is None
    asked = change(leader, now_ms=LATER_MS + LAG_MS_MAX + 1)
    assert asked is not None
    assert members(asked) == (ONE,)


def test_one_change_removes_and_adds() -> None:
    leader = lead(in_sync=(ONE, TWO))
    append(leader, 5)
    fetched(leader, THREE, 5, now_ms=LATER_MS)
    asked = change(leader, now_ms=LATER_MS)
    assert asked is not None
    assert members(asked) == (ONE, THREE)
    append(leader, 5)
    fetched(leader, THREE, 10, now_ms=LATER_MS)
    assert leader.high_watermark == 0  # the second counts until the metadata tell otherwise
    assert not confirm(leader, asked)
    assert leader.high_watermark == 0
    tell(leader, asked)
    assert leader.high_watermark == 10


# Broker epochs (KIP-903)


def test_a_fetch_of_an_earlier_incarnation_is_refused() -> None:
    leader = lead()
    fetched(leader, TWO, 0, broker_epoch=8)
    checked = leader.check_follower(TWO, leader_epoch=1, broker_epoch=7)
    assert checked is ErrorCode.NOT_LEADER_OR_FOLLOWER
    checked = leader.check_follower(TWO, leader_epoch=1, broker_epoch=8, registered_epoch=9)
    assert checked is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.check_follower(TWO, leader_epoch=1, broker_epoch=8) is ErrorCode.NONE


def test_a_fetch_of_an_incarnation_that_is_not_registered_is_refused() -> None:
    leader = lead()
    for broker_epoch, code in (
        (10, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (9, ErrorCode.NONE),
    ):
        checked = leader.check_follower(
            TWO, leader_epoch=1, broker_epoch=broker_epoch, registered_epoch=9
        )
        assert checked is code


def test_what_an_earlier_incarnation_claims_does_not_count() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    append(leader, 5)
    fetched(leader, TWO, 0, broker_epoch=8)
    fetched(leader, TWO, 5, broker_epoch=7)
    assert leader.high_watermark == 0


def test_a_new_incarnation_has_what_it_asks_after_and_no_more() -> None:
    leader = lead(replicas=(ONE, TWO), in_sync=(ONE, TWO))
    append(leader, 5)
    fetched(leader, TWO, 4, broker_epoch=7)
    append(leader, 5)
    fetched(leader, TWO, 1, broker_epoch=8)
    assert leader.followers.get(TWO).end_offset == 1  # type: ignore[union-attr]
    assert leader.high_watermark == 4


@pytest.mark.parametrize(
    ("node", "leader_epoch", "code"),
    [
        (9, 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ONE, 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (TWO, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (TWO, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (TWO, 1, ErrorCode.NONE),
    ],
)
def test_a_node_that_is_no_follower_in_this_epoch_is_refused(
    node: int, leader_epoch: int, code: ErrorCode
) -> None:
    leader = lead()
    assert leader.check_follower(node, leader_epoch=leader_epoch, broker_epoch=7) is code  # type: ignore[arg-type]


# Answers of the controller


@pytest.mark.parametrize("code", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_a_change_that_was_certainly_not_made_is_given_up(code: ErrorCode) -> None:
    leader, asked = joining()
    append(leader, 5)
    fetched(leader, TWO, 10)
    assert leader.high_watermark == 5
    assert not leader.in_sync_refused(asked, code)
    assert leader.high_watermark == 10


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_a_change_of_an_older_state_counts_until_the_metadata_tell_the_present_one(
    code: ErrorCode,
) -> None:
    leader, asked = joining()
    append(leader, 5)
    fetched(leader, TWO, 10)
    assert not leader.in_sync_refused(asked, code)
    assert change(leader) is None
    assert leader.high_watermark == 5
    leader.change_replicas(
        leader_epoch=LeaderEpoch(1),
        partition_epoch=1,
        replicas=(ONE, TWO, THREE),
        in_sync=(ONE, TWO),
        now_ms=NOW_MS,
    )
    assert leader.high_watermark == 10


@pytest.mark.parametrize(
    "code",
    [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_a_change_of_which_nothing_is_known_is_asked_for_again_as_it_was(code: ErrorCode) -> None:
    leader, asked = joining()
    append(leader, 5)
    fetched(leader, TWO, 10)
    assert leader.in_sync_refused(asked, code)
    assert leader.high_watermark == 5  # it may have been made
    assert change(leader, now_ms=LATER_MS, can_join=()) is asked
    assert change(leader) is None
    confirm(leader, asked)


def test_a_late_answer_does_not_count_for_the_change_after_it() -> None:
    leader, first = joining()
    leader.change_replicas(  # the metadata were faster
        leader_epoch=LeaderEpoch(1),
        partition_epoch=1,
        replicas=(ONE, TWO, THREE),
        in_sync=(ONE, TWO),
        now_ms=NOW_MS,
    )
    second = change(leader)
    assert second is not None
    assert not leader.in_sync_confirmed(
        first,
        leader_epoch=LeaderEpoch(1),
        partition_epoch=1,
        in_sync=(ONE, TWO),
        recovered=True,
        now_ms=NOW_MS,
    )
    assert not leader.in_sync_refused(first, ErrorCode.OPERATION_NOT_ATTEMPTED)
    assert leader.followers.pending is second


def test_an_answer_of_another_leader_epoch_is_ignored() -> None:
    leader, asked = joining()
    leader.change_replicas(
        leader_epoch=LeaderEpoch(2),
        partition_epoch=1,
        replicas=(ONE, TWO, THREE),
        in_sync=(ONE, TWO),
        now_ms=NOW_MS,
    )
    assert not leader.in_sync_confirmed(
        asked,
        leader_epoch=LeaderEpoch(1),
        partition_epoch=1,
        in_sync=(ONE, TWO, THREE),
        recovered=True,
        now_ms=NOW_MS,
    )
    assert leader.in_sync_count == 2


def test_metadata_that_are_not_newer_are_ignored() -> None:
    leader, asked = joining()
    confirm(leader, asked)
    leader.change_replicas(
        leader_epoch=LeaderEpoch(1),
        partition_epoch=1,
        replicas=(ONE, TWO, THREE),
        in_sync=(ONE, TWO),
        now_ms=NOW_MS,
    )
    assert leader.in_sync_count == 3


def test_a_leader_that_recovers_says_so_before_the_set_grows() -> None:
    leader = lead(in_sync=(ONE,), recovering=True)
    assert leader.is_recovering
    fetched(leader, TWO, 0)
    asked = change(leader)
    assert asked is not None
    assert members(asked) == (ONE,)
    confirm(leader, asked)
    assert not leader.is_recovering
    asked = change(leader)
    assert asked is not None
    assert members(asked) == (ONE, TWO)


def test_records_are_deleted_when_every_living_replica_has_moved_its_start() -> None:
    leader = lead()
    append(leader, 5)
    for node in (TWO, THREE):
        leader.follower_fetched(node, offset=5, broker_epoch=7, log_start_offset=0, now_ms=NOW_MS)
    leader.advance_start(leader.high_watermark)
    assert leader.low_watermark(lambda node: True) == 0
    leader.follower_fetched(TWO, offset=5, broker_epoch=7, log_start_offset=5, now_ms=NOW_MS)
    assert leader.low_watermark(lambda node: True) == 0
    assert leader.low_watermark(lambda node: node == TWO) == 5
