"""BeginQuorumEpoch makes followers, EndQuorumEpoch says who is to stand next."""

import pytest

from penstock.raft.messages import (
    BeginEpochReply,
    BeginEpochRequest,
    EndEpochReply,
    EndEpochRequest,
    Refused,
)
from rig.replica import TIMES, Lone, begin_epoch, end, end_epoch, fetch, follower, leader, requests


def test_leader_sends_begin_epoch_to_every_voter() -> None:
    one = leader(1)
    assert {send.to for send in requests(one.effects, BeginEpochRequest)} == {2, 3}


def test_begin_epoch_is_repeated_until_the_voter_fetches() -> None:
    one = leader(1)
    (to_two, _) = requests(one.effects, BeginEpochRequest)
    one.fail(to_two)
    again = requests(one.tick(one.now_ms + TIMES.retry_backoff_ms), BeginEpochRequest)
    assert [send.to for send in again] == [2]
    one.reply_to(again[0], BeginEpochReply(epoch=one.replica.epoch, leader_id=None))
    one.receive(fetch(1, 2, end(0, 0)))
    later = requests(one.tick(one.now_ms + TIMES.begin_epoch_ms - 1), BeginEpochRequest)
    assert 2 not in [send.to for send in later]


def test_begin_epoch_of_a_lower_epoch_is_refused() -> None:
    two = Lone(2, epoch=4)
    reply = two.ask(begin_epoch(3, 1, to=2))
    assert reply.error is Refused.FENCED_LEADER_EPOCH
    assert (reply.epoch, two.role) == (4, "unattached")


def test_begin_epoch_of_a_second_leader_of_the_epoch_is_refused() -> None:
    two = follower(2, of=1, epoch=3)
    assert two.ask(begin_epoch(3, 3, to=2)).error is Refused.INVALID_REQUEST
    assert two.replica.leader_id == 1


@pytest.mark.parametrize("epoch", [3, 4])
def test_message_that_calls_its_receiver_the_leader_is_refused(epoch: int) -> None:
    two = Lone(2, epoch=3)
    two.wait_until_due()
    assert two.role == "prospective"
    assert two.ask(begin_epoch(epoch, 2, to=2)).error is Refused.INVALID_REQUEST
    assert two.ask(end_epoch(epoch, 2)).error is Refused.INVALID_REQUEST


def test_end_epoch_of_a_second_leader_of_the_epoch_is_refused() -> None:
    two = follower(2, of=1, epoch=3)
    assert two.ask(end_epoch(3, 3, 2)).error is Refused.INVALID_REQUEST
    assert two.role == "follower"


def test_end_epoch_of_a_lower_epoch_is_refused() -> None:
    two = follower(2, of=1, epoch=3)
    assert two.ask(end_epoch(2, 1, 2)).error is Refused.FENCED_LEADER_EPOCH
    assert two.role == "follower"


def test_voter_that_had_given_the_leader_up_follows_it_again_on_begin_epoch() -> None:
    two = follower(2, of=1, epoch=3)
    two.tick(TIMES.fetch_timeout_ms)
    assert two.role == "prospective"
    two.receive(begin_epoch(3, 1, to=2))
    assert (two.role, two.replica.leader_id) == ("follower", 1)


def test_first_successor_stands_at_once() -> None:
    two = follower(2, of=1, epoch=3)
    two.receive(end_epoch(3, 1, 2, 3))
    assert two.role == "prospective"


def test_second_successor_leaves_time_to_the_first() -> None:
    three = follower(3, of=1, epoch=3)
    three.receive(end_epoch(3, 1, 2, 3))
    assert three.role == "follower"
    three.tick(TIMES.election_timeout_ms // 2)
    assert three.role == "follower"
    three.tick(TIMES.election_timeout_ms)
    assert three.role == "prospective"


def test_resigning_leader_names_voters_with_longer_logs_first() -> None:
    one = leader(1)
    one.append()
    one.sync()
    one.receive(fetch(1, 2, end(1, 1)))
    one.receive(fetch(1, 3, end(1, 2)))
    one.replica.resign(one.now_ms, for_good=True)
    (to_two, _) = requests(one.take(), EndEpochRequest)
    assert isinstance(to_two.request, EndEpochRequest)
    assert [key.node_id for key in to_two.request.successors] == [3, 2]


def test_end_epoch_is_repeated_until_it_is_answered() -> None:
    one = leader(1)
    one.replica.resign(one.now_ms, for_good=True)
    to_two, to_three = requests(one.take(), EndEpochRequest)
    one.fail(to_two)
    one.reply_to(to_three, EndEpochReply(epoch=one.replica.epoch, leader_id=None))
    again = requests(one.tick(one.now_ms + TIMES.retry_backoff_ms), EndEpochRequest)
    assert [send.to for send in again] == [2]


def test_leader_that_shuts_down_does_not_stand_again() -> None:
    one = leader(1)
    one.replica.resign(one.now_ms, for_good=True)
    one.tick(one.now_ms + 60_000)
    assert one.role == "resigned"
