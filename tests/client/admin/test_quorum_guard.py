"""A voter stays if the others would be no majority that lives."""

import pytest

from penstock.client.admin.quorum import Quorum, QuorumMember
from penstock.client.admin.quorum_guard import majority_lost
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset

NOW_MS = 1_000_000


def quorum(**fetched_ms_ago: int | None) -> Quorum:
    """Voters n1, n2, ..., of which n1 leads; None: the leader does not know of a fetch."""
    voters = tuple(
        QuorumMember(
            node_id=NodeId(int(name[1:])),
            directory_id=None,
            end_offset=None,
            lag=None,
            fetched_ms=None if ago is None else NOW_MS - ago,
            caught_up_ms=None,
        )
        for name, ago in fetched_ms_ago.items()
    )
    return Quorum(
        leader_id=NodeId(1),
        epoch=LeaderEpoch(1),
        high_watermark=Offset(1),
        voters=voters,
        observers=(),
        controllers=(),
    )


@pytest.mark.parametrize("dead", [60_000, None])
def test_of_three_with_one_dead_only_the_dead_one_may_be_removed(dead: int | None) -> None:
    voters = quorum(n1=0, n2=400, n3=dead)
    assert majority_lost(voters, NodeId(3)) is None
    for leaving in (1, 2):
        lost = majority_lost(voters, NodeId(leaving))
        assert str(lost) == (
            f"controller {leaving} must stay: without it {3 - leaving},3 vote, of which 3 did not"
            " fetch in the last 5 s, and the others are no majority: remove one that is dead first,"
            " or give --force"
        )


def test_any_may_be_removed_while_all_live() -> None:
    for leaving in (1, 2, 3):
        assert majority_lost(quorum(n1=0, n2=400, n3=900), NodeId(leaving)) is None


def test_of_five_with_one_dead_any_may_be_removed() -> None:
    voters = quorum(n1=0, n2=1, n3=1, n4=1, n5=60_000)
    assert all(majority_lost(voters, NodeId(leaving)) is None for leaving in range(1, 6))


def test_the_last_voter_and_leaders_that_tell_nothing_are_not_judged() -> None:
    assert majority_lost(quorum(n1=0), NodeId(1)) is None
    assert majority_lost(quorum(n1=None, n2=None, n3=None), NodeId(2)) is None
