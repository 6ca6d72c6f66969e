"""A voter gives one vote an epoch, persisted before its reply, to a log that is not behind."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from penstock.raft.effects import Answer, HardState, Persist
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import Refused, VoteReply, VoteRequest
from penstock.raft.voters import ReplicaKey
from rig.replica import Lone, begin_epoch, end, key, leader, log_of, requests, vote


def reply_to(lone: Lone, request: VoteRequest) -> VoteReply:
    reply = lone.ask(request)
    assert isinstance(reply, VoteReply)
    return reply


def test_vote_is_persisted_before_its_reply() -> None:
    two = Lone(2)
    effects = two.receive(vote(5, 3, to=2))
    kinds = [type(one) for one in effects if isinstance(one, Persist | Answer)]
    assert kinds[-1] is Answer
    (*_, kept) = [one.state for one in effects if isinstance(one, Persist)]
    assert kept == HardState(epoch=LeaderEpoch(5), leader_id=None, voted=key(3))


def test_second_candidate_of_an_epoch_gets_no_vote() -> None:
    two = Lone(2)
    assert reply_to(two, vote(5, 3, to=2)).granted
    assert not reply_to(two, vote(5, 1, to=2)).granted


def test_candidate_that_asks_again_gets_the_same_vote() -> None:
    two = Lone(2)
    assert reply_to(two, vote(5, 3, to=2)).granted
    assert reply_to(two, vote(5, 3, to=2)).granted


def test_vote_is_kept_over_a_restart() -> None:
    two = Lone(2, epoch=5, voted=key(3))
    assert not reply_to(two, vote(5, 1, to=2)).granted
    assert reply_to(two, vote(5, 3, to=2)).granted


def test_vote_that_was_kept_without_directory_id_is_given_again() -> None:
    # quorum-state of kraft.version 0 has no field for it.
    two = Lone(2, with_directories=False, epoch=5, voted=ReplicaKey(NodeId(3), None))
    assert reply_to(two, vote(5, 3, to=2)).granted
    assert not reply_to(two, vote(5, 1, to=2)).granted


def test_candidate_from_a_replaced_disk_does_not_get_the_vote_given_to_its_predecessor() -> None:
    two = Lone(2, epoch=5, voted=key(3))
    other = vote(5, 3, to=2)
    other.candidate = ReplicaKey(NodeId(3), b"another directory"[:16])
    assert not reply_to(two, other).granted


def test_candidate_does_not_vote_for_another() -> None:
    one = Lone(1, voters=3)
    one.wait_until_due()
    (send, *_) = requests(one.effects, VoteRequest)
    one.reply_to(send, VoteReply(epoch=one.replica.epoch, leader_id=None, granted=True))
    assert one.role == "candidate"
    assert not reply_to(one, vote(1, 3, to=1)).granted


def test_follower_does_not_vote_in_the_epoch_of_its_leader() -> None:
    two = Lone(2)
    two.receive(begin_epoch(3, 1, to=2))
    assert not reply_to(two, vote(3, 3, to=2)).granted


def test_restarted_replica_does_not_vote_in_an_epoch_that_has_a_leader() -> None:
    two = Lone(2, epoch=3, leader=1)
    assert not reply_to(two, vote(3, 3, to=2)).granted


def test_vote_of_a_lower_epoch_is_refused() -> None:
    two = Lone(2, epoch=5)
    reply = reply_to(two, vote(4, 3, to=2))
    assert (reply.granted, reply.error) == (False, Refused.FENCED_LEADER_EPOCH)
    assert reply.epoch == 5


# The voter's log ends with epochs 1, 1, 3: a log is not behind it if its last epoch is higher, or
# the same with an end that is not lower.
@pytest.mark.parametrize(
    ("log_end", "granted"),
    [
        (end(3, 3), True),
        (end(3, 4), True),
        (end(4, 1), True),
        (end(3, 2), False),
        (end(2, 9), False),
        (end(0, 0), False),
    ],
)
@pytest.mark.parametrize("pre_vote", [True, False])
def test_vote_goes_only_to_a_log_that_is_not_behind(
    log_end: LogEnd, granted: bool, pre_vote: bool
) -> None:
    two = Lone(2, epoch=3, log=log_of(1, 1, 3))
    assert reply_to(two, vote(7, 3, to=2, log_end=log_end, pre_vote=pre_vote)).granted is granted


def test_log_that_ends_in_an_epoch_not_begun_yet_is_an_invalid_request() -> None:
    two = Lone(2)
    assert reply_to(two, vote(4, 3, to=2, log_end=end(4, 2))).error is Refused.INVALID_REQUEST


def test_higher_epoch_of_a_vote_deposes_a_leader_even_if_its_log_is_behind() -> None:
    one = leader(1, log=log_of(1, 1), epoch=1)
    reply = reply_to(one, vote(9, 3, to=1))
    assert not reply.granted
    assert (one.role, one.replica.epoch) == ("unattached", 9)
