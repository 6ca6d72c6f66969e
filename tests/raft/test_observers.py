"""An observer is told of a new leader by nobody: it asks the voters once its own has gone."""

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.messages import FetchReply, FetchRequest, Refused
from rig.replica import TIMES, Lone, fetched, requests


def observer() -> Lone:
    """Node 9, which follows node 1 in epoch 1."""
    nine = Lone(9, epoch=1)
    (to_leader, *_) = requests(nine.effects, FetchRequest)
    nine.reply_to(to_leader, fetched(1, 1))
    assert nine.role == "follower"
    return nine


def names(leader_id: int, *, epoch: int) -> FetchReply:
    """The reply of a voter that does not lead."""
    return FetchReply(
        epoch=LeaderEpoch(epoch),
        leader_id=NodeId(leader_id),
        high_watermark=Offset(0),
        error=Refused.NOT_LEADER,
    )


def test_observer_asks_the_voters_when_its_leader_is_silent() -> None:
    nine = observer()
    nine.tick(TIMES.fetch_timeout_ms)
    assert {send.to for send in requests(nine.effects, FetchRequest)} == {1, 2, 3}


def test_observer_asks_the_voters_at_once_when_the_leaders_process_has_ended() -> None:
    nine = observer()
    nine.refuse(1)
    assert {send.to for send in requests(nine.effects, FetchRequest)} == {1, 2, 3}


def test_observer_follows_the_leader_of_a_later_epoch() -> None:
    nine = observer()
    nine.refuse(1)
    (to_two,) = [send for send in requests(nine.effects, FetchRequest) if send.to == 2]
    nine.reply_to(to_two, names(3, epoch=2))
    (send,) = requests(nine.effects, FetchRequest)
    assert (nine.role, send.to) == ("follower", 3)


def test_observer_does_not_believe_others_that_its_lost_leader_leads() -> None:
    nine = observer()
    nine.refuse(1)
    (to_two,) = [send for send in requests(nine.effects, FetchRequest) if send.to == 2]
    nine.reply_to(to_two, names(1, epoch=1))
    assert nine.role == "unattached"
    assert {send.to for send in requests(nine.tick(100), FetchRequest)} == {2}  # asks it again


def test_observer_follows_its_leader_again_when_that_replies() -> None:
    nine = observer()
    nine.tick(TIMES.fetch_timeout_ms)
    (to_leader,) = [send for send in requests(nine.effects, FetchRequest) if send.to == 1]
    nine.reply_to(to_leader, fetched(1, 1))
    assert nine.role == "follower"
