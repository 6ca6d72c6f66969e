"""Attempts of one application that lie in the wrong order are seen."""

import pytest

from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.sim.checker.transactions import check_order
from penstock.sim.errors import Violation
from penstock.sim.transacting.history import Attempt, TransactionHistory
from penstock.transactions.state import Identity

PLACE = TopicPartition("tx-target", 0)


def history_of(*names: str) -> TransactionHistory:
    history = TransactionHistory()
    identity = Identity(ProducerId(1), ProducerEpoch(0))
    for name in names:
        history.begin(Attempt(name=name, transactional_id="app-0", identity=identity))
    return history


def test_attempts_in_the_order_of_their_beginnings_are_right() -> None:
    check_order(history_of("a.1/1", "b.1/1"), PLACE, ["a.1/1/0", "a.1/1/1", "b.1/1/0"])


@pytest.mark.parametrize("names", [["b.1/1/0", "a.1/1/0"], ["a.1/1/1", "a.1/1/0"]])
def test_what_lies_behind_something_later_is_seen(names: list[str]) -> None:
    with pytest.raises(Violation, match="lies behind"):
        check_order(history_of("a.1/1", "b.1/1"), PLACE, names)
