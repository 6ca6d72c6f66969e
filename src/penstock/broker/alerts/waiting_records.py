"""Records that wait to be written to the topic, in their order and within a bound."""

import asyncio
import logging
from collections import deque

from penstock.alerts.delivery import AlertRecord
from penstock.model.limit import ALERT_REPORTS_WAITING_MAX

logger = logging.getLogger(__name__)


class WaitingRecords:
    """When they are too many, the oldest is given up: the latest say how it is now."""

    def __init__(self) -> None:
        self._records: deque[AlertRecord] = deque()
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_full(self) -> bool:
        return len(self._records) >= ALERT_REPORTS_WAITING_MAX

    @property
    def keys(self) -> frozenset[bytes]:
        return frozenset(record.key for record in self._records)

    def add(self, record: AlertRecord) -> None:
        if self.is_full:
            self._records.popleft()
            logger.warning("alerts to=topic given_up=1 reason=too many wait")
        self._records.append(record)
        self._news.set()

    async def some(self) -> tuple[AlertRecord, ...]:
        """All that wait, once there are any; they stay until `written`."""
        while not self._records:
            self._news.clear()
            await self._news.wait()
        return tuple(self._records)

    def written(self, record: AlertRecord) -> None:
        if self._records and self._records[0] is record:
            self._records.popleft()
