"""Ids that nobody uses are removed some at a time, each looked at once in a round."""

import pytest

from penstock.machine.decision import Decision
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.limit import TRANSACTIONAL_IDS_PER_STEP
from penstock.transactions.decide import decide_due
from penstock.transactions.records import stored
from penstock.transactions.state import Transaction, TransactionState
from rig.transactions import Coordinator

COUNT = 2 * TRANSACTIONAL_IDS_PER_STEP + 1


def expiry_steps(coordinator: Coordinator) -> list[int]:
    """Does what is due; how many ids each step removed."""
    removed = []
    while (due := decide_due(coordinator.shard, coordinator.context())) is not None:
        removed.append(len(due.records))
        coordinator.submit(lambda due=due: due)  # type: ignore[misc]  # bound as a default
    return removed


def use(coordinator: Coordinator, *numbers: int) -> None:
    """These ids are taken, now and by one decision."""
    records = tuple(
        stored(
            Transaction(
                transactional_id=f"t{number}",
                producer_id=ProducerId(number),
                producer_epoch=ProducerEpoch(0),
                timeout_ms=60_000,
                state=TransactionState.EMPTY,
                last_update_ms=coordinator.now_ms,
            )
        )
        for number in numbers
    )
    coordinator.submit(lambda: Decision(reply=None, records=records))


@pytest.fixture
def coordinator() -> Coordinator:
    """All of its ids are unused for so long that they expire."""
    coordinator = Coordinator()
    use(coordinator, *range(COUNT))
    coordinator.now_ms += coordinator.settings.transactional_id_expiration_ms
    return coordinator


def test_no_step_removes_more_than_its_share_and_together_they_remove_all(
    coordinator: Coordinator,
) -> None:
    assert expiry_steps(coordinator) == [TRANSACTIONAL_IDS_PER_STEP, TRANSACTIONAL_IDS_PER_STEP, 1]
    assert coordinator.shard.transactions == {}


def test_ids_in_use_are_looked_at_once_in_a_round(coordinator: Coordinator) -> None:
    use(coordinator, *range(COUNT - 1))
    assert expiry_steps(coordinator) == [0, 0, 1]
    coordinator.now_ms += (
        coordinator.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    )
    assert expiry_steps(coordinator) == [0, 0]


def test_id_that_is_used_again_before_its_step_stays(coordinator: Coordinator) -> None:
    first = decide_due(coordinator.shard, coordinator.context())
    assert first is not None
    coordinator.submit(lambda: first)
    use(coordinator, COUNT - 1)
    assert expiry_steps(coordinator) == [TRANSACTIONAL_IDS_PER_STEP, 0]
    assert list(coordinator.shard.transactions) == [f"t{COUNT - 1}"]
