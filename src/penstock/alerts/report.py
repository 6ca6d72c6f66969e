"""A transition as it leaves the node: a record of the topic, and the body of the webhook.

    key     owner/alert/subject       owner is the number of the node, or `cluster`
    value   one JSON object: see `Report`

The topic is compacted, so the last record of a key says whether the alert fires. Whoever reads it
may meet records of others: `read_report` gives None for what is no report.
"""

import json
import math
from dataclasses import replace

from penstock.alerts.machine import State, Transition
from penstock.alerts.rule import Scope, Severity
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass

CLUSTER_OWNER = "cluster"
WHOLE_MAX = 253_402_300_799_999  # the last millisecond of the year 9999: later ones have no date


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One line of the topic. Names are those of the JSON object."""

    alert: str
    state: State
    severity: Severity
    scope: Scope
    node: int  # who told it
    is_broker: bool  # whether that node is one
    subject: str
    value: float | None
    threshold: float
    unit: str
    at_ms: int  # since 1970
    means: str
    action: str

    @property
    def owner(self) -> str:
        return CLUSTER_OWNER if self.scope is Scope.CLUSTER else str(self.node)

    @property
    def id(self) -> str:
        return f"{self.owner}/{self.alert}/{self.subject}/{self.state.value}/{self.at_ms}"

    @property
    def key(self) -> bytes:
        return f"{self.owner}/{self.alert}/{self.subject}".encode("utf-8", "backslashreplace")

    @property
    def body(self) -> bytes:
        """As ASCII: names may hold anything."""
        return json.dumps(self.value_for_json()).encode()

    def value_for_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "alert": self.alert,
            "state": self.state.value,
            "severity": self.severity.value,
            "scope": self.scope.value,
            "node": self.node,
            "is_broker": self.is_broker,
            "subject": self.subject,
            "value": self.value,
            "threshold": self.threshold,
            "unit": self.unit,
            "at_ms": self.at_ms,
            "means": self.means,
            "action": self.action,
        }


def report_of(told: Transition, *, node_id: NodeId, is_broker: bool, now_ms: int) -> Report:
    rule = told.rule
    return Report(
        alert=rule.name,
        state=told.state,
        severity=rule.severity,
        scope=rule.scope,
        node=node_id,
        is_broker=is_broker,
        subject=told.subject,
        value=told.value,
        threshold=rule.threshold,
        unit=rule.unit.value,
        at_ms=now_ms,
        means=rule.means,
        action=rule.action,
    )


def cleared(firing: Report, *, node_id: NodeId, is_broker: bool, now_ms: int) -> Report:
    """The end of an alert whose rule nobody evaluates any more: there is no figure."""
    return replace(
        firing,
        state=State.CLEARED,
        node=node_id,
        is_broker=is_broker,
        value=None,
        at_ms=now_ms,
    )


def read_report(value: bytes | None) -> Report | None:
    try:
        found = json.loads(value or b"")
        if not isinstance(found, dict):
            return None
        return Report(
            alert=_text(found["alert"]),
            state=State(found["state"]),
            severity=Severity(found["severity"]),
            scope=Scope(found["scope"]),
            node=_whole(found["node"]),
            is_broker=found["is_broker"] is True,
            subject=_text(found["subject"]),
            value=None if found["value"] is None else _number(found["value"]),
            threshold=_number(found["threshold"]),
            unit=_text(found["unit"]),
            at_ms=_whole(found["at_ms"]),
            means=_text(found["means"]),
            action=_text(found["action"]),
        )
    except (ValueError, KeyError, OverflowError, RecursionError):
        return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("no whole number")
    if not 0 <= value <= WHOLE_MAX:
        raise ValueError("no number of a node or a time")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("no number")
    number = float(value)  # OverflowError for a whole number beyond all of them
    if not math.isfinite(number):
        raise ValueError("no finite number")
    return number
