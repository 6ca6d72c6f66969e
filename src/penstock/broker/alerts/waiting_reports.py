"""Reports that wait to be sent, in their order and within a bound."""

import asyncio
import logging
from collections import deque

from penstock.alerts.report import Report
from penstock.model.limit import ALERT_REPORTS_WAITING_MAX

logger = logging.getLogger(__name__)


class WaitingReports:
    """`to` says where they go, for the log. When they are too many, the oldest is given up: the
    latest say how it is now.
    """

    def __init__(self, to: str) -> None:
        self._to = to
        self._reports: deque[Report] = deque()
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._reports)

    @property
    def is_full(self) -> bool:
        return len(self._reports) >= ALERT_REPORTS_WAITING_MAX

    @property
    def keys(self) -> frozenset[bytes]:
        return frozenset(report.key for report in self._reports)

    def add(self, report: Report) -> None:
        if self.is_full:
            self._reports.popleft()
            logger.warning("alerts to=%s given_up=1 reason=too many wait", self._to)
        self._reports.append(report)
        self._news.set()

    async def some(self) -> tuple[Report, ...]:
        """All that wait, once there are any; they stay until `sent`."""
        while not self._reports:
            self._news.clear()
            await self._news.wait()
        return tuple(self._reports)

    def sent(self, report: Report) -> None:
        if self._reports and self._reports[0] is report:
            self._reports.popleft()
