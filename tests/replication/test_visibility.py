"""How far readers may see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.epochs import EpochEnd
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch, Offset
from penstock.replication.leader import (
    Refusal,
    check_leader_epoch,
    find_divergence,
    refuse_too_few_in_sync,
)
from penstock.replication.visibility import (
    advance_high_watermark,
    last_stable_offset,
    vouched_offset,
)


def watermark(current: int, end: int, *followers: int, synced: int | None = None) -> int:
    return advance_high_watermark(
        Offset(current),
        vouched_offset=Offset(end if synced is None else synced),
        follower_ends=[Offset(follower) for follower in followers],
    )


def test_a_sole_replica_shows_all_it_has() -> None:
    assert watermark(0, 10) == 10


def test_the_slowest_in_sync_follower_holds_the_high_watermark() -> None:
    assert watermark(0, 10, 7, 9) == 7


def test_with_fsync_acks_only_synced_records_are_shown() -> None:
    assert watermark(2, 10, synced=6) == 6
    assert watermark(2, 10, 4, synced=6) == 4


@pytest.mark.parametrize(
    ("end", "synced", "records", "vouched"),
    [(3, 0, 1, 0), (3, 2, 1, 2), (3, 3, 1, 3), (4, 0, 5, 4), (5, 0, 5, 0), (7, 5, 5, 7)],
)
def test_an_append_that_fills_up_the_unsynced_records_waits_for_a_sync(
    end: int, synced: int, records: int, vouched: int
) -> None:
    found = vouched_offset(
        end_offset=Offset(end), synced_offset=Offset(synced), sync_records=records
    )
    assert found == vouched


def test_a_follower_that_joins_behind_does_not_pull_the_high_watermark_back() -> None:
    assert watermark(8, 10, 3) == 8


@given(
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(st.integers(0, 60), max_size=3),
    st.one_of(st.none(), st.integers(0, 40)),
)
def test_the_high_watermark_only_grows_and_stays_within_the_log(
    current: int, more: int, followers: list[int], synced: int | None
) -> None:
    end = current + more
    reached = watermark(
        current, end, *followers, synced=None if synced is None else min(synced, end)
    )
    assert current <= reached <= end
    if reached > current:
        assert all(follower >= reached for follower in followers)
        assert synced is None or synced >= reached


def stable(high_watermark: int, first_unstable: int | None, *, start: int = 0) -> int:
    return last_stable_offset(
        start_offset=Offset(start),
        high_watermark=Offset(high_watermark),
        first_unstable_offset=None if first_unstable is None else Offset(first_unstable),
    )


def test_the_last_stable_offset_is_the_start_of_the_oldest_open_transaction() -> None:
    assert stable(10, None) == 10
    assert stable(10, 4) == 4
    assert stable(10, 12) == 10


def test_the_last_stable_offset_does_not_lie_before_the_start() -> None:
    assert stable(10, 4, start=6) == 6
    assert stable(10, 4, start=10) == 10
    assert stable(10, 8, start=6) == 8


def test_fetchers_of_another_leader_epoch_are_told_which_side_is_behind() -> None:
    known = LeaderEpoch(5)
    assert check_leader_epoch(asked=-1, known=known) == ErrorCode.NONE
    assert check_leader_epoch(asked=5, known=known) == ErrorCode.NONE
    assert check_leader_epoch(asked=4, known=known) == ErrorCode.FENCED_LEADER_EPOCH
    assert check_leader_epoch(asked=-5, known=known) == ErrorCode.FENCED_LEADER_EPOCH
    assert check_leader_epoch(asked=6, known=known) == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("in_sync", "replicas", "wanted", "refused"),
    [(1, 1, 1, False), (1, 1, 2, False), (1, 3, 2, True), (2, 3, 2, False), (2, 2, 3, False)],
)
def test_acks_of_all_need_as_many_in_sync_replicas_as_the_topic_asks_for(
    in_sync: int, replicas: int, wanted: int, refused: bool
) -> None:
    refusal = refuse_too_few_in_sync(
        in_sync_count=in_sync, replica_count=replicas, in_sync_min=wanted
    )
    assert (refusal is not None) == refused
    assert refusal is None or refusal.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal is None or isinstance(refusal, Refusal)


def test_a_fetcher_whose_epoch_ended_earlier_here_has_diverged() -> None:
    end = EpochEnd(leader_epoch=LeaderEpoch(2), end_offset=Offset(10))
    assert find_divergence(end, last_fetched_epoch=2, fetch_offset=10) == ErrorCode.NONE
    assert find_divergence(end, last_fetched_epoch=2, fetch_offset=11) == end
    assert find_divergence(end, last_fetched_epoch=3, fetch_offset=5) == end
    unknown = find_divergence(None, last_fetched_epoch=9, fetch_offset=5)
    assert unknown == ErrorCode.OFFSET_OUT_OF_RANGE
