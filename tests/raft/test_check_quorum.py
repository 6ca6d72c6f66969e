"""A leader that a majority does not fetch from resigns, before it does anything else."""

from penstock.raft.messages import EndEpochRequest, FetchReply, Refused
from rig.replica import TIMES, Lone, end, fetch, leader, replies, requests


def test_leader_resigns_when_no_majority_fetches() -> None:
    one = leader(1)
    one.tick(one.now_ms + TIMES.check_quorum_ms - 1)
    assert one.replica.leads
    one.tick(one.now_ms + 1)
    assert one.role == "resigned"
    assert {send.to for send in requests(one.effects, EndEpochRequest)} == {2, 3}


def test_one_of_two_followers_is_enough() -> None:
    one = leader(1)
    for _ in range(5):
        one.tick(one.now_ms + TIMES.check_quorum_ms - 1)
        one.receive(fetch(1, 2, end(0, 0)))
    assert one.replica.leads


def test_one_of_four_followers_is_not_enough() -> None:
    one = leader(1, voters=5)
    for _ in range(2):
        one.tick(one.now_ms + TIMES.check_quorum_ms - 1)
        one.receive(fetch(1, 2, end(0, 0)))
    assert one.role == "resigned"


def test_after_a_pause_the_leader_resigns_before_it_answers_what_was_queued() -> None:
    one = leader(1)
    one.sync()
    one.now_ms += TIMES.check_quorum_ms
    reply = one.ask(fetch(1, 2, end(1, 1)))
    assert reply.error is Refused.NOT_LEADER
    assert one.replica.high_watermark == 0


def test_leader_without_other_voters_never_resigns() -> None:
    one = Lone(1, voters=1)
    one.tick(1_000_000)
    assert one.replica.leads


def test_waiting_fetches_are_answered_when_the_leader_resigns() -> None:
    one = leader(1)
    one.receive(fetch(1, 2, end(1, 1), watermark=0, wait_ms_max=500))
    one.replica.resign(one.now_ms, for_good=True)
    (reply,) = replies(one.take())
    assert isinstance(reply, FetchReply)
    assert reply.error is Refused.NOT_LEADER
    assert reply.leader_id is None
