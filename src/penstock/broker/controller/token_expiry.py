"""Removes delegation tokens that have expired, from time to time, while this controller is the
active one (`delegation.token.expiry.check.interval.ms`). Nobody logs in by them meanwhile either.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from penstock.metadata.controller.delegation_tokens import ExpiredTokensRemoved
from penstock.model.error import RequestError

logger = logging.getLogger(__name__)

Remove = Callable[[], Awaitable[ExpiredTokensRemoved]]


class TokenExpiry:
    """`is_due` says whether this controller is active and there are tokens."""

    def __init__(self, *, interval_ms: int, is_due: Callable[[], bool], remove: Remove) -> None:
        self._interval_ms = interval_ms
        self._is_due = is_due
        self._remove = remove

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            await self.round()

    async def round(self) -> None:
        """One look at all tokens."""
        if not self._is_due():
            return
        try:
            removed = await self._remove()
        except RequestError:  # another controller is active now, or the next round does it
            return
        for token_id in removed.token_ids:
            logger.info("delegation token expired=true token=%s", token_id)
