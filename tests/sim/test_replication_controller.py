"""The controller of the simulated partition: who leads, who is in sync, who is eligible."""

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from penstock.replication.followers import InSyncChange
from penstock.sim.replication.controller import NO_LEADER, Controller

A, B, C = NodeId(0), NodeId(1), NodeId(2)


def three(*, in_sync_min: int = 2) -> Controller:
    controller = Controller(3, in_sync_min=in_sync_min, flaw=None)
    for node in (A, B, C):
        controller.register(node, clean=True, directory_id=node)
        controller.unfence(node)
    return controller


def ask(controller: Controller, *members: NodeId, number: int = 1) -> ErrorCode | None:
    leader = controller.leader
    change = InSyncChange(
        leader_epoch=LeaderEpoch(controller.leader_epoch),
        partition_epoch=controller.partition_epoch,
        members=tuple((node, controller.broker_epochs[node]) for node in members),
    )
    return controller.alter(leader, controller.broker_epochs[leader], number, change)


def test_an_in_sync_replica_follows_a_leader_that_is_fenced() -> None:
    controller = three()
    before = controller.leader_epoch
    controller.fence(A)
    assert (controller.leader, controller.in_sync) == (B, {B, C})
    assert controller.leader_epoch > before


def test_below_the_minimum_who_leaves_stays_eligible() -> None:
    controller = three()
    controller.fence(A)
    assert controller.eligible == set()
    controller.fence(B)
    assert (controller.leader, controller.in_sync, controller.eligible) == (C, {C}, {B})
    controller.fence(C)
    assert (controller.leader, controller.eligible) == (NO_LEADER, {B, C})
    controller.unfence(B)
    assert (controller.leader, controller.in_sync, controller.eligible) == (B, {B}, {C})


def test_whoever_lost_something_is_not_eligible() -> None:
    controller = three()
    controller.fence(A)
    controller.fence(B)
    controller.register(B, clean=False, directory_id=B)
    assert controller.eligible == set()


def test_the_last_leader_recovers_when_nobody_else_is_left() -> None:
    controller = three()
    for node in (A, B, C):
        controller.register(node, clean=False, directory_id=node)
    assert controller.leader == NO_LEADER
    controller.unfence(A)
    assert controller.leader == NO_LEADER  # it led before
    controller.unfence(C)
    assert (controller.leader, controller.recovering) == (C, True)
    assert ask(controller, A, C) is ErrorCode.INVALID_REQUEST
    assert ask(controller, C, number=2) is ErrorCode.NONE
    assert not controller.recovering


def test_the_last_leader_does_not_recover_with_an_empty_disk() -> None:
    controller = three()
    for node in (A, B, C):
        controller.register(node, clean=False, directory_id=7 + node)
        controller.unfence(node)
    assert controller.is_stuck
    controller.elect_unclean()
    assert controller.leader == A


def test_another_minimum_clears_the_eligible_set() -> None:
    controller = three()
    controller.fence(A)
    controller.fence(B)
    controller.require(1)
    assert controller.eligible == set()


def test_requests_of_another_state_are_refused() -> None:
    controller = three()
    change = InSyncChange(leader_epoch=LeaderEpoch(1), partition_epoch=0, members=((A, -1),))
    assert controller.alter(A, 1, 1, change) is ErrorCode.INVALID_UPDATE_VERSION
    assert controller.alter(A, 0, 1, change) is ErrorCode.STALE_BROKER_EPOCH
    assert controller.alter(B, 2, 1, change) is ErrorCode.FENCED_LEADER_EPOCH
    assert ask(controller, A, B, number=2) is ErrorCode.NONE
    controller.register(C, clean=True, directory_id=C)
    assert ask(controller, A, B, C, number=3) is ErrorCode.INELIGIBLE_REPLICA
    assert ask(controller, A, number=1) is None  # of an older connection
