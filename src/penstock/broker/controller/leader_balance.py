"""Lets preferred replicas lead again, from time to time, while this controller is the active one.

After a restart of a broker the others lead what it led. When it is in sync again, this gives back
its share (`auto.leader.rebalance.enable`, `leader.imbalance.check.interval.seconds`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from penstock.metadata.controller.elections import LeadersBalanced
from penstock.model.error import RequestError

logger = logging.getLogger(__name__)

Balance = Callable[[], Awaitable[LeadersBalanced]]


class LeaderBalance:
    """`is_due` says whether this controller is active and there is something to balance."""

    def __init__(self, *, interval_s: int, is_due: Callable[[], bool], balance: Balance) -> None:
        self._interval_s = interval_s
        self._is_due = is_due
        self._balance = balance

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.round()

    async def round(self) -> None:
        """One look at all leaders, in as many decisions as it takes."""
        elected, is_done = 0, False
        while not is_done and self._is_due():
            try:
                balanced = await self._balance()
            except RequestError:  # another controller is active now, or goes on later
                break
            elected, is_done = elected + balanced.elected, balanced.is_done
        if elected > 0:
            logger.info("leaders preferred=true elected=%d", elected)
