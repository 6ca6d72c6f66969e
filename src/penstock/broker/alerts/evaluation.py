"""Alerts are evaluated at an interval, and what begins or ends to fire is told.

What was told before this node began, or by the controller before it, is read from the topic, so
that it is neither told twice nor left as firing for ever. What fired by a rule that this node does
not evaluate any more is told as cleared.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from penstock.alerts.machine import AlertKey, Alerts, State, Transition
from penstock.alerts.report import Report, cleared, report_of
from penstock.alerts.rule import Scope
from penstock.broker.alerts.figures import FigureSources
from penstock.model.events import ALERT_CLEARED, ALERT_FIRING
from penstock.model.identity import NodeId
from penstock.world.event_log import tell
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)


class Known(Protocol):
    """What was told before; None when that cannot be read now."""

    async def __call__(self) -> Iterable[Report] | None: ...


class Evaluation:
    def __init__(
        self,
        *,
        alerts: Alerts,
        sources: FigureSources,
        known: Known,
        told: Iterable[Callable[[Report], None]],
        hold: Callable[[Collection[Report]], None] | None,
        node_id: NodeId,
        is_broker: bool,
        interval_ms: int,
        clock: Clock,
    ) -> None:
        """`told` gets what begins or ends to fire; `hold`, after each round, all that fires."""
        self._alerts = alerts
        self._sources = sources
        self._known = known
        self._told = tuple(told)
        self._hold = hold
        self._node_id = node_id
        self._is_broker = is_broker
        self._interval_ms = interval_ms
        self._clock = clock
        self._adopted: frozenset[Scope] = frozenset()  # scopes whose earlier alerts are known
        self._firing: dict[AlertKey, Report] = {}  # as they were told

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._round()
            await asyncio.sleep(self._interval_ms / 1000)

    async def _round(self) -> None:
        await self._adopt()
        snapshot = await self._sources.snapshot()
        for transition in self._alerts.evaluate(snapshot):
            self._tell(transition)
        self._hold_firing()
        if self._alerts.left_out:
            logger.warning("alerts left_out=%d reason=too many subjects", self._alerts.left_out)

    async def _adopt(self) -> None:
        scopes = self._sources.scopes
        self._adopted &= scopes
        wanted = scopes - self._adopted
        if not wanted:
            return
        reports = await self._known()
        if reports is None:
            return  # asked again in the next round
        self._adopted |= wanted
        known = {
            AlertKey(one.alert, one.subject): one
            for one in reports
            if one.state is State.FIRING and one.scope in wanted
            if one.scope is Scope.CLUSTER or one.node == self._node_id
        }
        for key in [one for one in known if not self._alerts.evaluates(one.rule)]:
            self._clear(known.pop(key))
        self._alerts.adopt(known, now_ms=self._clock.monotonic_ms())
        self._firing |= known

    def _hold_firing(self) -> None:
        """Without an await since they were told: what waits to be written is known as waiting."""
        present = {AlertKey(one.rule.name, one.subject) for one in self._alerts.firing()}
        self._firing = {key: one for key, one in self._firing.items() if key in present}
        if self._hold is not None:
            self._hold(self._firing.values())

    def _clear(self, firing: Report) -> None:
        self._tell_all(
            cleared(
                firing,
                node_id=self._node_id,
                is_broker=self._is_broker,
                now_ms=self._clock.now_ms(),
            )
        )

    def _tell(self, transition: Transition) -> None:
        report = report_of(
            transition,
            node_id=self._node_id,
            is_broker=self._is_broker,
            now_ms=self._clock.now_ms(),
        )
        self._firing[AlertKey(report.alert, report.subject)] = report
        self._tell_all(report)

    def _tell_all(self, report: Report) -> None:
        tell(
            logger,
            ALERT_FIRING if report.state is State.FIRING else ALERT_CLEARED,
            alert=report.alert,
            severity=report.severity.value,
            subject=report.subject or None,
            value=report.value,
            threshold=report.threshold,
        )
        for told in self._told:
            told(report)
