"""The checker of the quorum tells a lost record from one that was committed later."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import HardState
from penstock.raft.voters import ReplicaKey
from penstock.sim.quorum.checker import Checker
from penstock.sim.quorum.disk import LogEntry, ReplicaDisk
from penstock.sim.quorum.violation import Violation

A, B = NodeId(0), NodeId(1)


def epoch(number: int) -> LeaderEpoch:
    return LeaderEpoch(number)


def disk_with(*epochs: int) -> ReplicaDisk:
    disk = ReplicaDisk(b"")
    disk.append(tuple(LogEntry(epoch(one), value) for value, one in enumerate(epochs)))
    return disk


def commit(checker: Checker, disk: ReplicaDisk, *, in_epoch: int, end: int) -> None:
    checker.commits(A, disk, epoch=epoch(in_epoch), start=Offset(0), end=Offset(end))


def test_leader_without_a_record_that_an_earlier_epoch_committed_is_found() -> None:
    checker = Checker()
    commit(checker, disk_with(1, 1, 5), in_epoch=5, end=3)
    with pytest.raises(Violation, match="committed entry lost"):
        checker.elected(epoch(6), B, disk_with(1, 1))


def test_leader_that_learns_late_of_its_election_may_lack_what_was_committed_since() -> None:
    checker = Checker()
    commit(checker, disk_with(1, 1, 7), in_epoch=7, end=3)
    checker.elected(epoch(6), B, disk_with(1))


def test_second_leader_of_an_epoch_is_found() -> None:
    checker = Checker()
    checker.elected(epoch(2), A, disk_with())
    with pytest.raises(Violation, match="two leaders in epoch 2"):
        checker.elected(epoch(2), B, disk_with())


def test_vote_that_changes_on_disk_is_found() -> None:
    checker = Checker()
    for_a, for_b = (
        HardState(epoch=epoch(2), leader_id=None, voted=ReplicaKey(node, None)) for node in (A, B)
    )
    checker.persists(A, for_a, for_a)
    with pytest.raises(Violation, match="changes its vote in epoch 2"):
        checker.persists(A, for_a, for_b)


def test_epoch_that_goes_back_on_disk_is_found() -> None:
    later, earlier = (HardState(epoch=epoch(n), leader_id=None, voted=None) for n in (2, 1))
    with pytest.raises(Violation, match="goes back from epoch 2 to 1"):
        Checker().persists(A, later, earlier)
