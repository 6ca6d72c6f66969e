"""Voters are added and removed one at a time, by a leader that has committed in its epoch."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import AppendVoters
from penstock.raft.messages import EndEpochRequest, FetchReply, FetchRequest, Run
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.resigned import Resigned
from penstock.raft.voter_changes import ChangeRefused, VoterChange
from penstock.raft.voter_history import NOT_IN_LOG, VoterHistory, VotersAt
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterEndpoint, VoterSet
from rig.replica import Lone, all_of, end, fetch, follower, key, leader, replies, requests

DETAILS = VoterDetails((VoterEndpoint("CONTROLLER", "delta", 9093),))


def committed_leader(**about: object) -> Lone:
    """The leader of epoch 1, whose first record is committed."""
    one = leader(1, **about)  # type: ignore[arg-type]  # as Lone takes them
    one.sync()
    for node in (2, 3):
        one.receive(fetch(1, node, end(1, 1), watermark=0))
    assert one.replica.high_watermark == 1
    return one


def test_an_observer_that_has_caught_up_is_added_and_counts_at_once() -> None:
    one = committed_leader()
    one.receive(fetch(1, 4, end(1, 1), watermark=1))
    changed = one.replica.add_voter(key(4), DETAILS, one.now_ms)
    assert isinstance(changed, VoterChange)
    assert one.replica.voters.majority == 3
    one.sync()
    one.receive(fetch(1, 2, end(1, 2), watermark=1))
    assert one.replica.high_watermark == 1, "two of four are no majority"
    one.receive(fetch(1, 4, end(1, 2), watermark=1))
    assert one.replica.high_watermark == 2


def test_a_replica_that_has_not_caught_up_recently_is_not_added() -> None:
    one = committed_leader()
    assert one.replica.add_voter(key(4), DETAILS, one.now_ms) is ChangeRefused.NOT_CAUGHT_UP
    one.receive(fetch(1, 4, end(0, 0), watermark=0))
    assert one.replica.add_voter(key(4), DETAILS, one.now_ms) is ChangeRefused.NOT_CAUGHT_UP


def test_nothing_is_changed_before_the_leader_has_committed_in_its_epoch() -> None:
    one = leader(1)
    refused = one.replica.remove_voter(key(3), one.now_ms)
    assert refused is ChangeRefused.EPOCH_NOT_COMMITTED


def test_a_second_change_waits_for_the_first() -> None:
    one = committed_leader(voters=5)
    assert isinstance(one.replica.remove_voter(key(5), one.now_ms), VoterChange)
    refused = one.replica.remove_voter(key(4), one.now_ms)
    assert refused is ChangeRefused.CHANGE_PENDING


@pytest.mark.parametrize(
    ("voter", "refused"),
    [
        (key(9), ChangeRefused.VOTER_NOT_FOUND),
        (ReplicaKey(NodeId(2), b"another disk 123"), ChangeRefused.VOTER_NOT_FOUND),
    ],
)
def test_only_a_voter_with_its_directory_id_is_removed(
    voter: ReplicaKey, refused: ChangeRefused
) -> None:
    one = committed_leader()
    assert one.replica.remove_voter(voter, one.now_ms) is refused


def test_a_voter_is_not_added_twice_whatever_its_directory() -> None:
    one = committed_leader()
    twin = ReplicaKey(NodeId(2), b"another disk 123")
    assert one.replica.add_voter(twin, DETAILS, one.now_ms) is ChangeRefused.DUPLICATE_VOTER


def test_the_last_voter_cannot_be_removed() -> None:
    one = Lone(1, voters=1)
    one.sync()
    assert one.replica.remove_voter(key(1), one.now_ms) is ChangeRefused.LAST_VOTER


def test_fixed_voters_cannot_be_changed() -> None:
    one = Lone(1, voters=1, with_directories=False)
    one.sync()
    assert one.replica.remove_voter(key(1), one.now_ms) is ChangeRefused.FIXED_VOTERS


def test_a_leader_that_is_removed_leads_without_counting_itself_and_then_resigns() -> None:
    one = committed_leader()
    assert isinstance(one.replica.remove_voter(key(1), one.now_ms), VoterChange)
    one.sync()
    one.receive(fetch(1, 2, end(1, 2), watermark=1))
    assert one.replica.high_watermark == 1, "its own copy does not count"
    assert isinstance(one.replica.state.role, Leader)
    effects = one.receive(fetch(1, 3, end(1, 2), watermark=1))
    assert one.replica.high_watermark == 2
    assert isinstance(one.replica.state.role, Resigned)
    assert {send.to for send in requests(effects, EndEpochRequest)} == {2, 3}
    assert replies(effects), "the fetch that committed it is answered"


def test_a_voter_says_where_it_listens_and_it_is_written_once() -> None:
    one = committed_leader()
    changed = one.replica.update_voter(key(2), DETAILS, one.now_ms)
    assert isinstance(changed, VoterChange)
    assert all_of(one.take(), AppendVoters)
    assert one.replica.voters.details_of(NodeId(2)) == DETAILS
    assert isinstance(one.replica.update_voter(key(2), DETAILS, one.now_ms), VoterChange)
    assert not all_of(one.take(), AppendVoters)


def test_fixed_voters_are_written_to_the_log_once_all_have_said_who_they_are() -> None:
    one = committed_leader(with_directories=False)
    refused = one.replica.upgrade_voters(DETAILS, one.now_ms)
    assert refused is ChangeRefused.VOTERS_UNSAID
    for node in (2, 3):
        one.replica.update_voter(key(node), DETAILS, one.now_ms)
    assert isinstance(one.replica.upgrade_voters(DETAILS, one.now_ms), VoterChange)
    assert set(one.replica.voters.keys.values()) == {key(1), key(2), key(3)}
    assert one.replica.upgrade_voters(DETAILS, one.now_ms) is ChangeRefused.UPGRADED


def test_truncation_takes_a_set_back_and_a_snapshot_replaces_all() -> None:
    first, second, third = (VoterSet([key(1), key(node)]) for node in (2, 3, 4))
    history = VoterHistory(first)
    history.append(VotersAt(offset=Offset(5), voters=second))
    history.append(VotersAt(offset=Offset(9), voters=third))
    assert history.before(Offset(9)).voters is second
    history.truncate(Offset(9))
    assert history.latest.voters is second
    history.truncate(Offset(3))
    assert history.latest == VotersAt(offset=NOT_IN_LOG, voters=first)
    history.install(Offset(20), third)
    assert history.latest == VotersAt(offset=Offset(19), voters=third)


def test_a_follower_uses_the_voters_that_it_has_fetched() -> None:
    one = follower(2)
    run = Run(epoch=LeaderEpoch(1), end_offset=Offset(2))
    smaller = VoterSet([key(1), key(3)])
    reply = FetchReply(
        epoch=LeaderEpoch(1),
        leader_id=NodeId(1),
        high_watermark=Offset(0),
        runs=(run,),
        voter_sets=(VotersAt(offset=Offset(1), voters=smaller),),
    )
    (send,) = requests(one.effects, FetchRequest)
    one.reply_to(send, reply)
    assert one.replica.voters is smaller
    assert one.replica.state.may_stand, "its removal is not known to be committed"
