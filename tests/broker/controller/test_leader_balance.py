"""The active controller lets preferred replicas lead again, in as many decisions as it takes."""

import asyncio

from penstock.broker.controller.leader_balance import LeaderBalance
from penstock.metadata.controller.elections import LeadersBalanced
from penstock.model.error import ErrorCode, RequestError


class Imbalance:
    """So many partitions that others lead; a decision elects ten."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.decisions = 0
        self.refuses = False

    async def balance(self) -> LeadersBalanced:
        self.decisions += 1
        if self.refuses:
            raise RequestError(ErrorCode.NOT_CONTROLLER)
        elected = min(self.count, 10)
        self.count -= elected
        return LeadersBalanced(elected=elected, is_done=elected < 10)

    def round(self) -> int:
        """The decisions that it took."""
        before = self.decisions
        balance = LeaderBalance(interval_s=300, is_due=lambda: self.count > 0, balance=self.balance)
        asyncio.run(balance.round())
        return self.decisions - before


def test_a_round_goes_on_until_nothing_is_left() -> None:
    imbalance = Imbalance(25)
    assert imbalance.round() == 3
    assert imbalance.count == 0


def test_a_round_without_anything_to_do_decides_nothing() -> None:
    assert Imbalance(0).round() == 0


def test_a_controller_that_is_deposed_leaves_the_rest_to_the_next() -> None:
    imbalance = Imbalance(25)
    imbalance.refuses = True
    assert imbalance.round() == 1
    assert imbalance.count == 25
