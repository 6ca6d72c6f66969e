"""A pre-vote is refused while the leader is heard, so a voter that is merely cut off disturbs
nobody (KIP-996).
"""

from penstock.raft.effects import Persist
from penstock.raft.messages import FetchRequest, VoteReply, VoteRequest
from rig.replica import TIMES, Lone, all_of, end, fetched, follower, leader, requests, vote


def heard_follower() -> Lone:
    """Node 2; node 1 replied to its fetch at 0 ms."""
    two = follower(2, of=1, epoch=1)
    (send,) = requests(two.effects, FetchRequest)
    two.reply_to(send, fetched(1, 1))
    return two


def granted(lone: Lone, request: VoteRequest) -> bool:
    reply = lone.ask(request)
    assert isinstance(reply, VoteReply)
    return reply.granted


def test_pre_vote_is_refused_while_the_leader_is_heard() -> None:
    two = heard_follower()
    two.now_ms = TIMES.fetch_timeout_ms - 1
    assert not granted(two, vote(1, 3, to=2, pre_vote=True))


def test_pre_vote_is_granted_once_the_leader_has_been_silent_for_the_fetch_timeout() -> None:
    two = heard_follower()
    two.now_ms = TIMES.fetch_timeout_ms
    assert granted(two, vote(1, 3, to=2, pre_vote=True))


def test_pre_vote_is_granted_once_the_leaders_process_has_ended() -> None:
    two = heard_follower()
    two.refuse(1)
    assert granted(two, vote(1, 3, to=2, pre_vote=True))


def test_leader_refuses_a_pre_vote() -> None:
    assert not granted(leader(1), vote(1, 3, to=1, log_end=end(1, 9), pre_vote=True))


def test_pre_vote_changes_nothing_on_disk() -> None:
    two = Lone(2, epoch=1)
    assert granted(two, vote(1, 3, to=2, pre_vote=True))
    assert all_of(two.effects, Persist) == []


def test_pre_vote_is_granted_to_several_candidates() -> None:
    two = Lone(2, epoch=1)
    assert granted(two, vote(1, 3, to=2, pre_vote=True))
    assert granted(two, vote(1, 1, to=2, pre_vote=True))


def test_epoch_does_not_rise_before_a_majority_would_vote() -> None:
    one = Lone(1, voters=3, epoch=4)
    one.wait_until_due()
    sends = requests(one.effects, VoteRequest)
    assert one.role == "prospective"
    assert one.replica.epoch == 4
    one.reply_to(sends[0], VoteReply(epoch=one.replica.epoch, leader_id=None, granted=True))
    assert (one.role, one.replica.epoch) == ("candidate", 5)


def test_voter_that_has_refused_is_not_waited_for_again() -> None:
    one = Lone(1, voters=3, epoch=4)
    one.wait_until_due()
    one.fail(requests(one.effects, VoteRequest)[0])
    one.wait_until_due()
    (again,) = requests(one.effects, VoteRequest)
    one.reply_to(again, VoteReply(epoch=one.replica.epoch, leader_id=None, granted=False))
    assert one.role == "prospective"
    due_ms = one.replica.next_deadline_ms()
    assert due_ms is not None
    assert due_ms > one.now_ms
