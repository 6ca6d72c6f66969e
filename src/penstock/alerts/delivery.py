"""What the receiver of the webhook has taken, as a record beside the reports of the topic.

    key     webhook/owner/alert/subject       that of the report, behind a word
    value   {"delivered": {"state": "firing", "at_ms": 1790000000000}}

`read_report` gives None for it, so whoever reads alerts passes it over. From it the next start, and
the next controller, know what they have to send again: see `is_owed`.
"""

import json
from dataclasses import field

from penstock.alerts.machine import State
from penstock.alerts.report import WHOLE_MAX, Report
from penstock.model.lazy_dataclass import dataclass

PREFIX = b"webhook/"
FIELD = "delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The receiver has taken this report."""

    report_key: bytes
    state: State
    at_ms: int  # of the report

    @property
    def key(self) -> bytes:
        return PREFIX + self.report_key

    @property
    def body(self) -> bytes:
        return json.dumps({FIELD: {"state": self.state.value, "at_ms": self.at_ms}}).encode()


AlertRecord = Report | Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecords:
    """What the topic says: the last report of each alert, and what was delivered of it."""

    reports: dict[bytes, Report] = field(default_factory=dict)  # by key
    deliveries: dict[bytes, Delivery] = field(default_factory=dict)  # by the key of the report


def delivery_of(report: Report) -> Delivery:
    return Delivery(report_key=report.key, state=report.state, at_ms=report.at_ms)


def is_owed(last: Report, delivered: Delivery | None) -> bool:
    """Whether the receiver is to be sent this last report of an alert: it fires and was not taken,
    or it has cleared after the receiver took that it fires.
    """
    if last.state is State.FIRING:
        return delivered != delivery_of(last)
    return delivered is not None and delivered.state is State.FIRING


def read_delivery(key: bytes, value: bytes | None) -> Delivery | None:
    """None for what is no delivery."""
    if not key.startswith(PREFIX):
        return None
    try:
        found = json.loads(value or b"")[FIELD]
        state, at_ms = State(found["state"]), found["at_ms"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(at_ms) is not int or not 0 <= at_ms <= WHOLE_MAX:
        return None
    return Delivery(report_key=key.removeprefix(PREFIX), state=state, at_ms=at_ms)
