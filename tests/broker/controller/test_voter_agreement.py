"""A voter does not follow a leader that has other voters in its settings."""

import pytest

from penstock.broker.controller.voter_agreement import (
    DifferentVoters,
    NotFollowed,
    refuse_other_voters,
    unknown_leader,
)
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.control import ControlType, control_batch
from penstock.records.record import Record
from penstock.wire.codec import encode
from penstock.wire.messages.control_records import LeaderChangeMessage, Voter

OWN = VoterSet(ReplicaKey(NodeId(number), None) for number in (1, 2, 3))
EPOCH = LeaderEpoch(7)
LEADER = NodeId(2)


def leader_change(*voters: int, epoch: int = EPOCH) -> BatchView:
    message = LeaderChangeMessage(
        version=0, leader_id=LEADER, voters=[Voter(voter_id=voter) for voter in voters]
    )
    batch = control_batch(
        ControlType.LEADER_CHANGE,
        encode(message, 0),
        timestamp_ms=0,
        leader_epoch=LeaderEpoch(epoch),
    )
    return BatchView(memoryview(batch))


def check(*batches: BatchView, high_watermark: int = 1) -> None:
    refuse_other_voters(
        OWN, batches, epoch=EPOCH, leader_id=LEADER, high_watermark=Offset(high_watermark)
    )


def test_leader_with_the_same_voters_is_followed() -> None:
    data = build_batch([Record(None, b"a record")], leader_epoch=EPOCH)
    check(leader_change(3, 1, 2), BatchView(memoryview(data)))


@pytest.mark.parametrize("theirs", [(1, 2), (1, 2, 4), (1, 2, 3, 4)])
def test_leader_with_other_voters_is_refused(theirs: tuple[int, ...]) -> None:
    with pytest.raises(DifferentVoters) as refused:
        check(leader_change(*theirs))
    listed = ", ".join(map(str, theirs))
    assert str(refused.value) == (
        f"controller.quorum.voters names 1, 2, 3 here and {listed} on node 2, which leads the"
        " quorum: it must be the same on all nodes"
    )


def test_leader_whose_other_voters_nobody_has_accepted_is_not_followed() -> None:
    with pytest.raises(NotFollowed):
        check(leader_change(1, 2, 4), high_watermark=0)


def test_leader_that_is_its_only_voter_is_not_followed_though_it_commits_alone() -> None:
    with pytest.raises(NotFollowed):
        check(leader_change(2))


def test_voters_of_earlier_epochs_do_not_count() -> None:
    check(leader_change(1, 2, 4, epoch=6), leader_change(1, 2, 3))


def test_leader_that_is_no_voter_here_is_named() -> None:
    assert str(unknown_leader(OWN, NodeId(4))).startswith(
        "controller.quorum.voters names 1, 2, 3 here, and not node 4, which leads the quorum"
    )
