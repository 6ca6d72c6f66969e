"""Requests that no replica can mean are refused, and change nothing."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.limit import EPOCHS_AHEAD_MAX
from penstock.raft.effects import AnswerFetch, Persist
from penstock.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    Refused,
    VoteRequest,
)
from penstock.raft.voters import ReplicaKey
from rig.replica import (
    TIMES,
    Lone,
    all_of,
    begin_epoch,
    end,
    end_epoch,
    fetch,
    leader,
    log_of,
    vote,
)

LAST_EPOCH = 2**31 - 1


def of_epoch(epoch: int) -> list[VoteRequest | BeginEpochRequest | EndEpochRequest]:
    return [
        vote(epoch, 3, to=1, log_end=end(0, 0)),
        vote(epoch, 3, to=1, log_end=end(0, 0), pre_vote=True),
        begin_epoch(epoch, 3, to=1),
        end_epoch(epoch, 3),
    ]


@pytest.mark.parametrize("epoch", [LAST_EPOCH, EPOCHS_AHEAD_MAX + 8])
@pytest.mark.parametrize("which", range(4))
def test_epoch_that_is_far_ahead_is_refused(which: int, epoch: int) -> None:
    """Else nobody could be elected any more: no epoch follows the last one."""
    one = Lone(1, epoch=7, leader=2)
    assert one.ask(of_epoch(epoch)[which]).error is Refused.INVALID_REQUEST
    assert one.replica.epoch == 7
    assert not any(isinstance(effect, Persist) for effect in one.effects)


def test_leader_is_not_deposed_by_an_epoch_that_is_far_ahead() -> None:
    one = leader(1, log=log_of(1), epoch=1)
    epoch = one.replica.epoch
    one.ask(vote(LAST_EPOCH, 3, to=1))
    assert (one.role, one.replica.epoch) == ("leader", epoch)


@pytest.mark.parametrize("which", range(4))
def test_epochs_that_were_missed_are_believed(which: int) -> None:
    one = Lone(1, epoch=7, leader=2)
    assert one.ask(of_epoch(7 + EPOCHS_AHEAD_MAX)[which]).error is None
    assert one.replica.epoch == 7 + EPOCHS_AHEAD_MAX


@pytest.mark.parametrize("node_id", [-1, -(2**31)])
def test_sender_with_a_negative_id_is_refused(node_id: int) -> None:
    sender = NodeId(node_id)
    voting = vote(8, 3, to=1)
    voting.candidate = ReplicaKey(sender, None)
    beginning, ending = begin_epoch(8, 3, to=1), end_epoch(8, 3)
    beginning.leader_id = ending.leader_id = sender
    for request in (voting, beginning, ending):
        one = Lone(1, epoch=7, leader=2)
        assert one.ask(request).error is Refused.INVALID_REQUEST
        assert one.replica.epoch == 7


def test_vote_for_a_log_of_a_negative_epoch_is_refused() -> None:
    one = Lone(1, epoch=7)
    assert one.ask(vote(8, 3, to=1, log_end=end(-1, 0))).error is Refused.INVALID_REQUEST


def test_fetch_waits_no_longer_than_a_follower_waits_for_its_leader() -> None:
    """It is kept also when its sender has gone, and there may be many of those."""
    one = leader(1)
    one.sync()
    one.receive(fetch(1, 9, end(1, 1), wait_ms_max=2**31 - 1))
    assert not all_of(one.effects, AnswerFetch)
    one.tick(one.now_ms + TIMES.fetch_timeout_ms)
    assert len(all_of(one.effects, AnswerFetch)) == 1
