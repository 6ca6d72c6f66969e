"""Orders of the shop and their payments, and what is known of each order after each batch."""

import json
import random
from collections import defaultdict
from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import Any

from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.names import ORDERS, PAYMENTS
from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS
from penstock.spark.pipelines.generated import Event
from rig.stateful.story import dealt
from rig.stateful.truth import Truth

HANDS = 10
TIMES = ("at", "ordered_at")
OF_ORDER = ("customer_id", "region", "total_cents", "shipping")
OF_PAYMENT = ("transaction_id", "attempt")
FIELDS = ("order_id", "status", *OF_ORDER, *OF_PAYMENT, "order_events", "payment_events")
STATUS = {"completed": "paid", "failed": "payment failed", "initiated": "paying"}


class OrderViewStory:
    topics: Mapping[str, int] = {ORDERS: 1, PAYMENTS: 1}

    def __init__(self, *, seed: int, events_per_batch: int) -> None:
        self.truth = Truth()
        chance = random.Random(f"orders {seed}")
        told = (event for event in events(seed) if event.topic in self.topics)
        self._batches = dealt(told, size=events_per_batch, hands=HANDS, chance=chance)
        self._orders: defaultdict[str, _Order] = defaultdict(_Order)

    def batch(self) -> list[Event]:
        some = next(self._batches)
        changed = set()
        for event in some:
            fields = sound_fields(event)
            if fields is not None:
                self._orders[fields["order_id"]].take(event.topic, fields)
                changed.add(fields["order_id"])
        self.truth.note_batch({one.encode(): self._orders[one].state(one) for one in changed})
        return some

    def state_of(self, value: bytes) -> Hashable:
        told = json.loads(value)
        ordered_at = datetime.fromisoformat(told["ordered_at"]).timestamp()
        return (*(told.get(name) for name in FIELDS), ordered_at)


def sound_fields(event: Event) -> dict[str, Any] | None:
    """None: the event is damaged, or of a clock that is wrong by years."""
    try:
        fields: dict[str, Any] = json.loads(event.value or b"")
    except ValueError:
        return None
    for name in TIMES:
        off_ms = datetime.fromisoformat(fields[name]).timestamp() * 1000 - event.timestamp_ms
        if not -DEFAULT_BOUNDS.behind_ms_max <= off_ms <= DEFAULT_BOUNDS.ahead_ms_max:
            return None
    return fields


class _Order:
    def __init__(self) -> None:
        self.order: dict[str, Any] = {}  # of the latest version
        self.payment: dict[str, Any] = {}  # of the latest try
        self.order_events = 0
        self.payment_events = 0
        self.ordered_at = 0.0

    def take(self, topic: str, fields: dict[str, Any]) -> None:
        self.ordered_at = datetime.fromisoformat(fields["ordered_at"]).timestamp()
        if topic == ORDERS:
            self.order_events += 1
            self.order = max(self.order, fields, key=lambda one: one.get("version", 0))
        else:
            self.payment_events += 1
            self.payment = max(self.payment, fields, key=_try)

    def state(self, order_id: str) -> Hashable:
        if self.order.get("event") == "cancelled":
            status = "cancelled"
        else:
            status = STATUS.get(self.payment.get("event", ""), "ordered")
        return (
            order_id,
            status,
            *(self.order.get(name) for name in OF_ORDER),
            *(self.payment.get(name) for name in OF_PAYMENT),
            self.order_events,
            self.payment_events,
            self.ordered_at,
        )


def _try(payment: dict[str, Any]) -> tuple[int, int]:
    return payment.get("attempt", 0), payment.get("version", 0)
