"""Each alert that fires or clears goes to an address of the web, in order, by one POST each.

A receiver that answers with anything but 2xx, or not in time, is asked again a few times; then the
report is given up, and the next one is sent. A receiver that took a report and could not say so
gets it again: `id` in the body is the same then.
"""

import asyncio
import logging

from penstock.alerts.report import Report
from penstock.broker.alerts.waiting_reports import WaitingReports
from penstock.model.events import ALERT_WEBHOOK_FAILED
from penstock.model.limit import (
    ALERT_WEBHOOK_BACKOFF_MS,
    ALERT_WEBHOOK_MS_MAX,
    ALERT_WEBHOOK_TRIES_MAX,
)
from penstock.world.errors import NetworkError
from penstock.world.event_log import tell
from penstock.world.web import WebAddress

logger = logging.getLogger(__name__)


class Webhook:
    def __init__(self, url: str) -> None:
        self._address = WebAddress(url)  # never logged: it may hold a token
        self._waiting = WaitingReports("webhook")

    def add(self, report: Report) -> None:
        self._waiting.add(report)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            for report in await self._waiting.some():
                self._waiting.sent(report)
                await self._send(report)

    async def _send(self, report: Report) -> None:
        backoff_ms = ALERT_WEBHOOK_BACKOFF_MS
        for tries in range(1, ALERT_WEBHOOK_TRIES_MAX + 1):
            failed = await self._try(report)
            if failed is None:
                return
            if tries < ALERT_WEBHOOK_TRIES_MAX:
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms *= 2
        tell(
            logger,
            ALERT_WEBHOOK_FAILED,
            alert=report.alert,
            subject=report.subject or None,
            state=report.state.value,
            tries=ALERT_WEBHOOK_TRIES_MAX,
            reason=failed,
        )

    async def _try(self, report: Report) -> str | None:
        """Why it was not taken; None when it was."""
        try:
            status = await self._address.post_json(report.body, timeout_ms=ALERT_WEBHOOK_MS_MAX)
        except NetworkError as error:
            return str(error)
        return None if 200 <= status < 300 else f"status {status}"
