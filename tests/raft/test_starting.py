"""How a replica begins: what it must not do because it may have done it before."""

from penstock.raft.effects import AppendLeaderChange, HardState, Persist
from penstock.raft.messages import EndEpochRequest, FetchRequest, Refused, VoteRequest
from rig.replica import Lone, all_of, end, fetch, key, log_of, requests, vote


def test_leader_that_comes_back_has_resigned() -> None:
    one = Lone(1, epoch=3, leader=1, voted=key(1), log=log_of(1, 3))
    assert one.role == "resigned"
    assert {send.to for send in requests(one.effects, EndEpochRequest)} == {2, 3}
    assert one.ask(fetch(3, 2, end(3, 2))).error is Refused.NOT_LEADER


def test_leader_that_comes_back_names_no_leader_until_there_is_another() -> None:
    one = Lone(1, epoch=3, leader=1, voted=key(1))
    names = {one.replica.leader_id}
    while one.role != "unattached":  # it stands for election, and nobody replies
        one.tick(one.now_ms + 100)
        names.add(one.replica.leader_id)
        names.add(one.ask(fetch(3, 2, end(0, 0))).leader_id)
    assert names == {None}


def test_leader_that_comes_back_grants_no_vote_in_its_epoch() -> None:
    one = Lone(1, epoch=3, leader=1, voted=key(1))
    reply = one.ask(vote(3, 2, to=1, log_end=end(2, 9)))
    assert reply.leader_id is None
    assert one.role == "resigned"


def test_single_voter_elects_itself_at_once() -> None:
    one = Lone(1, voters=1, epoch=4, log=log_of(1, 4))
    assert one.replica.leads
    kept = [effect.state for effect in all_of(one.effects, Persist)]
    assert kept[-1] == HardState(epoch=one.replica.epoch, leader_id=one.replica.leader_id,
                                 voted=key(1))  # fmt: skip
    assert one.replica.epoch == 5
    assert len(all_of(one.effects, AppendLeaderChange)) == 1
    one.sync()
    assert one.replica.high_watermark == 3


def test_single_voter_that_led_before_begins_another_epoch() -> None:
    one = Lone(1, voters=1, epoch=4, leader=1, voted=key(1), log=log_of(4))
    assert one.replica.leads
    assert one.replica.epoch == 5


def test_observer_never_stands_for_election() -> None:
    nine = Lone(9, voters=3)
    assert {send.to for send in requests(nine.effects, FetchRequest)} == {1, 2, 3}
    for now_ms in range(0, 60_000, 100):
        for send in requests(nine.effects, FetchRequest):
            nine.fail(send)
        nine.tick(now_ms)
        assert nine.role == "unattached"
        assert requests(nine.effects, VoteRequest) == []


def test_voter_that_reaches_a_majority_stands_soon() -> None:
    one = Lone(1, voters=3)
    (two, _) = requests(one.effects, FetchRequest)
    other = Lone(2, voters=3)
    assert isinstance(two.request, FetchRequest)
    one.reply_to(two, other.ask(two.request))
    one.tick(50)
    assert one.role == "prospective"
