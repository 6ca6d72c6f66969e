"""Alerts are evaluated at an interval, and what begins or ends to fire is told.

What was told before this node began, or by the controller before it, is read from the topic, so
that it is neither told twice nor left as firing for ever. The webhook is sent what its receiver has
not taken of it. What fired by a rule that this node does not evaluate any more is told as cleared.
"""

import asyncio
import logging

from penstock.alerts.delivery import AlertRecords
from penstock.alerts.machine import AlertKey, Alerts, State, Transition
from penstock.alerts.report import Report, cleared, report_of
from penstock.alerts.rule import Scope
from penstock.broker.alerts.alert_topic import AlertTopic
from penstock.broker.alerts.figures import FigureSources
from penstock.broker.alerts.webhook import Webhook
from penstock.model.events import ALERT_CLEARED, ALERT_FIRING
from penstock.model.identity import NodeId
from penstock.world.event_log import tell
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)


class Evaluation:
    def __init__(
        self,
        *,
        alerts: Alerts,
        sources: FigureSources,
        topic: AlertTopic | None,
        webhook: Webhook | None,
        node_id: NodeId,
        is_broker: bool,
        interval_ms: int,
        clock: Clock,
    ) -> None:
        self._alerts = alerts
        self._sources = sources
        self._topic = topic
        self._webhook = webhook
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
        if self._webhook is not None:
            self._webhook.keep(scopes)
        wanted = scopes - self._adopted
        if not wanted:
            return
        records = AlertRecords() if self._topic is None else await self._topic.known()
        if records is None:
            return  # asked again in the next round
        self._adopted |= wanted
        last = {
            AlertKey(one.alert, one.subject): one
            for one in records.reports.values()
            if one.scope in wanted
            if one.scope is Scope.CLUSTER or one.node == self._node_id
        }
        for key in last.keys() & self._firing.keys():
            del last[key]  # told by this node since
        firing = {key: one for key, one in last.items() if one.state is State.FIRING}
        for key in [one for one in firing if not self._alerts.evaluates(one.rule)]:
            self._clear(firing.pop(key))
            del last[key]
        self._alerts.adopt(firing, now_ms=self._clock.monotonic_ms())
        self._firing |= firing
        if self._webhook is not None:
            for one in last.values():
                self._webhook.resume(one, records.deliveries.get(one.key))

    def _hold_firing(self) -> None:
        """Without an await since they were told: what waits to be written is known as waiting."""
        present = {AlertKey(one.rule.name, one.subject) for one in self._alerts.firing()}
        self._firing = {key: one for key, one in self._firing.items() if key in present}
        if self._topic is None:
            return
        firing = tuple(self._firing.values())
        taken = () if self._webhook is None else self._webhook.taken(firing)
        self._topic.hold((*firing, *taken))

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
        if self._topic is not None:
            self._topic.add(report)
        if self._webhook is not None:
            self._webhook.add(report)
