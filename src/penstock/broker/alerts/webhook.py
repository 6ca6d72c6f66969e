"""Each alert that fires or clears goes to an address of the web, in order, by one POST each.

A receiver that answers with anything but 2xx, or not in time, is asked again a few times; then the
next report is sent, and this one again at an interval (`alerts/undelivered`). What was taken is
handed to `delivered`, so that the topic has it: what it does not have is sent again by the next
start, or by the next controller. A receiver that took a report and could not say so gets it again:
`id` in the body is the same then.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from penstock.alerts.delivery import Delivery, delivery_of, is_owed
from penstock.alerts.machine import State
from penstock.alerts.report import Report
from penstock.alerts.rule import Scope
from penstock.alerts.undelivered import Undelivered
from penstock.model.events import ALERT_WEBHOOK_FAILED
from penstock.model.limit import (
    ALERT_REPORTS_WAITING_MAX,
    ALERT_WEBHOOK_AGAIN_MS,
    ALERT_WEBHOOK_BACKOFF_MS,
    ALERT_WEBHOOK_MS_MAX,
    ALERT_WEBHOOK_TRIES_MAX,
)
from penstock.world.errors import NetworkError
from penstock.world.event_log import tell
from penstock.world.ports import Clock
from penstock.world.web import WebAddress

logger = logging.getLogger(__name__)


class Webhook:
    def __init__(
        self, url: str, *, clock: Clock, delivered: Callable[[Delivery], None] | None
    ) -> None:
        self._address = WebAddress(url)  # never logged: it may hold a token
        self._clock = clock
        self._delivered = delivered
        self._waiting = Undelivered(
            reports_max=ALERT_REPORTS_WAITING_MAX, again_ms=ALERT_WEBHOOK_AGAIN_MS
        )
        self._news = asyncio.Event()
        self._taken: dict[bytes, Delivery] = {}  # of alerts that fire, by the key of the report

    def add(self, report: Report) -> None:
        dropped = self._waiting.add(report)
        if dropped:
            logger.warning("alerts to=webhook given_up=%d reason=too many wait", dropped)
        self._news.set()

    def resume(self, last: Report, delivered: Delivery | None) -> None:
        """The last report of an alert before this node told of it, and what was taken of it."""
        if is_owed(last, delivered):
            self.add(last)
        elif last.state is State.FIRING and delivered is not None:
            self._taken[last.key] = delivered

    def taken(self, firing: Collection[Report]) -> tuple[Delivery, ...]:
        """Of the alerts that fire now, what the receiver has taken."""
        keys = {report.key for report in firing}
        self._taken = {key: one for key, one in self._taken.items() if key in keys}
        return tuple(self._taken.values())

    def keep(self, scopes: Collection[Scope]) -> None:
        """This node tells of these alone: what waits of others is another node's to send."""
        self._waiting.keep(scopes)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            report = self._waiting.next(now_ms=self._clock.monotonic_ms())
            if report is not None:
                await self._send(report)
                continue
            self._news.clear()
            at_ms = self._waiting.next_at_ms()
            wait_s = None if at_ms is None else (at_ms - self._clock.monotonic_ms()) / 1000
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _send(self, report: Report) -> None:
        is_late = self._waiting.is_late(report)
        tries_max = 1 if is_late else ALERT_WEBHOOK_TRIES_MAX
        backoff_ms = ALERT_WEBHOOK_BACKOFF_MS
        failed = ""
        for tries in range(1, tries_max + 1):
            if report not in self._waiting:
                return  # another node tells it now
            reason = await self._try(report)
            if reason is None:
                self._note_taken(report)
                return
            failed = reason
            if tries < tries_max:
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms *= 2
        self._waiting.given_up(report, now_ms=self._clock.monotonic_ms())
        if is_late:
            return  # that it is not taken has been logged
        tell(
            logger,
            ALERT_WEBHOOK_FAILED,
            alert=report.alert,
            subject=report.subject or None,
            state=report.state.value,
            tries=tries_max,
            reason=failed,
        )

    def _note_taken(self, report: Report) -> None:
        is_ours = report in self._waiting  # else another node has told it meanwhile
        self._waiting.taken(report)
        if not is_ours:
            return
        if self._delivered is None:
            return
        delivery = delivery_of(report)
        if report.state is State.FIRING:
            self._taken[report.key] = delivery
        else:
            self._taken.pop(report.key, None)
        self._delivered(delivery)

    async def _try(self, report: Report) -> str | None:
        """Why it was not taken; None when it was."""
        try:
            status = await self._address.post_json(report.body, timeout_ms=ALERT_WEBHOOK_MS_MAX)
        except NetworkError as error:
            return str(error)
        return None if 200 <= status < 300 else f"status {status}"
