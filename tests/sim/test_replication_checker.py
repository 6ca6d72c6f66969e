"""The checker of a replicated partition tells two processes that ack in one leader epoch."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.sim.replication.checker import Checker
from penstock.sim.replication.violation import Violation

A, B = NodeId(0), NodeId(1)


def checker() -> Checker:
    """One that does not ask what the acked records are: an operator has given them up."""
    found = Checker(acks_wait_for_syncs=False)
    found.forgive(Offset(0), epoch=5)
    return found


def ack(checker: Checker, node: NodeId, *, broker_epoch: int, epoch: int) -> None:
    checker.acks(node, Offset(0), 0, broker_epoch=broker_epoch, epoch=epoch, in_sync_min=2)


def test_second_node_that_acks_in_an_epoch_is_found() -> None:
    acked = checker()
    ack(acked, A, broker_epoch=1, epoch=3)
    with pytest.raises(Violation, match=r"two leaders ack in epoch 3: node 0 .+ and node 1 of 2"):
        ack(acked, B, broker_epoch=2, epoch=3)


def test_new_incarnation_that_acks_in_the_epoch_of_the_old_one_is_found() -> None:
    acked = checker()
    ack(acked, A, broker_epoch=1, epoch=3)
    with pytest.raises(Violation, match=r"two leaders ack in epoch 3: node 0 .+ and node 0 of 2"):
        ack(acked, A, broker_epoch=2, epoch=3)


def test_each_epoch_has_a_process_of_its_own_that_acks() -> None:
    acked = checker()
    ack(acked, A, broker_epoch=1, epoch=3)
    ack(acked, A, broker_epoch=1, epoch=3)
    ack(acked, B, broker_epoch=2, epoch=4)
    ack(acked, A, broker_epoch=1, epoch=3)  # late, of a leader that does not know yet
    assert acked.acked == 4
