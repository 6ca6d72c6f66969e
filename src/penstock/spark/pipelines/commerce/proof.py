"""Whether what came out of the shop follows from what went in, to the last record. Pure.

`Proof` takes every event as it is sent, and works out what the outputs must be: which records, in
which order of each key, and what the last state of everything is. `findings` compares. It knows the
meaning of the steps and shares no code with them but the fold of stock, which has its own tests,
and the bounds of event time. Every field of every record counts.

A payment that is too late for revenue is in the ledger and in the view of its order, and a dead
letter besides.

A record that replaces another one of its key has to be ahead of it (more events, a higher version):
the same state written twice is a duplicate.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce.lateness import PAYMENT_LATENESS
from penstock.spark.pipelines.commerce.stock import NO_STOCK, Stock, StockEvent, fold
from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS
from penstock.spark.pipelines.generated import Event

OUTPUTS = (
    names.FULFILMENT,
    names.ANALYTICS,
    names.NOTIFICATIONS,
    names.LEDGER,
    names.DEAD_LETTERS,
    names.ORDER_VIEW,
    names.REVENUE,
    names.STOCK_LEVELS,
    names.STOCK_ALERTS,
)

# Fields of events that are found again in outputs.
FACT = ("event_id", "order_id", "event", "region", "total_cents", "at")
ORDER = ("order_id", "event", "version", "customer_id", "region", "total_cents", "shipping",
         "ordered_at")  # fmt: skip
PAYMENT = ("order_id", "event", "version", "transaction_id", "attempt", "ordered_at")
SHOWN = ("order_id", "customer_id", "region", "total_cents", "shipping", "transaction_id",
         "attempt", "ordered_at")  # fmt: skip
TIMES = ("at", "ordered_at")
NEWS = {
    "created": "we have your order",
    "cancelled": "your order is cancelled",
    "failed": "your payment did not go through",
}


class Output(NamedTuple):
    """A record of an output, in the order of its partition."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    what: str
    events: int  # that went in
    rows: int  # that came out
    duplicates: int
    missing: int
    wrong: int  # out of order, or another state than it should be

    @property
    def proven(self) -> bool:
        return not (self.duplicates or self.missing or self.wrong)


class Proof:
    def __init__(self) -> None:
        self.events = 0
        self._sent: Counter[str] = Counter()  # by topic
        self._expected: dict[str, list[Output]] = defaultdict(list)  # whole records or their ids
        self._orders: dict[str, _OrderState] = defaultdict(_OrderState)
        self._revenue: dict[str, tuple[int, int]] = {}  # cents and payments
        self._stock: dict[str, Stock] = {}

    def take(self, event: Event) -> None:
        assert event.key is not None
        assert event.value is not None
        self.events += 1
        self._sent[event.topic] += 1
        key = event.key.decode()
        try:
            fields = json.loads(event.value)
        except ValueError:
            self._expected[names.DEAD_LETTERS].append(Output(key, event.value))
            return
        if event.topic in (names.ORDERS, names.PAYMENTS) and _is_of_another_time(event, fields):
            self._expected[names.DEAD_LETTERS].append(Output(key, event.value))
            return
        if event.topic == names.ORDERS:
            self._take_order(key, event.value, fields)
        elif event.topic == names.PAYMENTS:
            self._take_payment(key, event, fields)
        else:
            self._take_stock(key, fields)

    def findings(
        self, found: Mapping[str, Sequence[Output]], table: Mapping[str, int] | None
    ) -> list[Finding]:
        """`found` has the committed records of every output; `table` the levels by article."""
        found = {topic: found.get(topic, ()) for topic in OUTPUTS}
        orders, payments = self._sent[names.ORDERS], self._sent[names.PAYMENTS]
        inventory = self._sent[names.INVENTORY]
        by_fields = {
            topic: [Output(one.key, _fields(json.loads(one.value))) for one in found[topic]]
            for topic in (names.ANALYTICS, names.NOTIFICATIONS, names.STOCK_ALERTS)
        }
        findings = [
            self._each(names.FULFILMENT, orders, found[names.FULFILMENT]),
            self._each(names.ANALYTICS, orders, by_fields[names.ANALYTICS]),
            self._each(names.NOTIFICATIONS, orders + payments, by_fields[names.NOTIFICATIONS]),
            self._each(names.LEDGER, payments, found[names.LEDGER]),
            self._each(names.DEAD_LETTERS, self.events, found[names.DEAD_LETTERS]),
            _latest(
                names.ORDER_VIEW,
                orders + payments,
                {order: state.view() for order, state in self._orders.items()},
                (_seen_order(one) for one in found[names.ORDER_VIEW]),
            ),
            _latest(
                names.REVENUE,
                payments,
                {minute: _revenue_fields(minute, *told) for minute, told in self._revenue.items()},
                (_seen_revenue(one) for one in found[names.REVENUE]),
            ),
            _latest(
                names.STOCK_LEVELS,
                inventory,
                {sku: _stock_fields(sku, stock) for sku, stock in self._stock.items()},
                (_seen_stock(one) for one in found[names.STOCK_LEVELS]),
            ),
            self._each(names.STOCK_ALERTS, inventory, by_fields[names.STOCK_ALERTS]),
        ]
        if table is not None:
            levels = {sku: stock.level for sku, stock in self._stock.items()}
            findings.append(
                _latest(
                    f"table {names.STOCK_TABLE}",
                    inventory,
                    levels,
                    (_Seen(sku, 1, level) for sku, level in table.items()),
                )
            )
        return findings

    def _take_order(self, key: str, value: bytes, fields: dict[str, Any]) -> None:
        self._expected[names.FULFILMENT].append(Output(key, value))
        fact = {name: fields[name] for name in FACT} | {"items": len(fields["items"])}
        self._expected[names.ANALYTICS].append(Output(fields["region"], _fields(fact)))
        self._notify(fields)
        order = self._orders[key]
        order.order_events += 1
        if fields["version"] > order.order.get("version", 0):
            order.order = {name: fields[name] for name in ORDER}

    def _take_payment(self, key: str, event: Event, fields: dict[str, Any]) -> None:
        assert event.value is not None
        self._expected[names.LEDGER].append(Output(key, event.value))
        self._notify(fields)
        order = self._orders[fields["order_id"]]
        order.payment_events += 1
        known = (order.payment.get("attempt", 0), order.payment.get("version", 0))
        if (fields["attempt"], fields["version"]) > known:
            order.payment = {name: fields[name] for name in PAYMENT}
        if fields["event"] != "completed":
            return
        if _ahead_ms(event, fields["at"]) < -PAYMENT_LATENESS.late_ms_max:
            self._expected[names.DEAD_LETTERS].append(Output(key, event.value))
        else:
            minute = f"{fields['at'][:16]}Z/{fields['region']}"
            cents, payments = self._revenue.get(minute, (0, 0))
            self._revenue[minute] = (cents + fields["amount_cents"], payments + 1)

    def _notify(self, fields: dict[str, Any]) -> None:
        text = NEWS.get(fields["event"])
        if text is not None:
            notice = {"event_id": fields["event_id"], "order_id": fields["order_id"], "text": text}
            told = Output(fields["customer_id"], _fields(notice))
            self._expected[names.NOTIFICATIONS].append(told)

    def _take_stock(self, key: str, fields: dict[str, Any]) -> None:
        event = StockEvent(
            fields["version"],
            fields["event"],
            fields["quantity"],
            fields["event_id"],
            fields.get("order_id"),
        )
        self._stock[key], alerts = fold(self._stock.get(key, NO_STOCK), [event])
        for alert in alerts:
            told = {
                "sku": key,
                "kind": alert.kind.value,
                "level": alert.level,
                "event_id": alert.event.event_id,
                "version": alert.event.version,
                "order_id": alert.event.order_id,
            }
            self._expected[names.STOCK_ALERTS].append(Output(key, _fields(told)))

    def _each(self, topic: str, events: int, found: Sequence[Output]) -> Finding:
        """Every record once, those of one key in order. Of dead letters and notices, which come
        from several topics, only those of one topic have an order.
        """
        expected = self._expected[topic]
        wanted, seen = Counter(expected), Counter(found)
        ordered = topic in (names.FULFILMENT, names.LEDGER, names.STOCK_ALERTS)
        return Finding(
            what=topic,
            events=events,
            rows=len(found),
            duplicates=(seen - wanted).total(),
            missing=(wanted - seen).total(),
            wrong=_disordered(expected, found) if ordered else 0,
        )


class _OrderState:
    def __init__(self) -> None:
        self.order: dict[str, Any] = {}  # of the latest version
        self.payment: dict[str, Any] = {}  # of the latest try
        self.order_events = 0
        self.payment_events = 0

    def view(self) -> object:
        known = self.payment | self.order
        view = {name: known[name] for name in SHOWN if name in known}
        counts = {"order_events": self.order_events, "payment_events": self.payment_events}
        return _fields(view | counts | {"status": self._status()})

    def _status(self) -> str:
        if self.order.get("event") == "cancelled":
            return "cancelled"
        paid = {"completed": "paid", "failed": "payment failed", "initiated": "paying"}
        return paid.get(self.payment.get("event", ""), "ordered")


class _Seen(NamedTuple):
    key: str
    progress: int  # grows with every record of a key
    state: object


def _ahead_ms(event: Event, moment: str) -> float:
    """How far a time lies after the timestamp of the event's record."""
    return datetime.fromisoformat(moment).timestamp() * 1000 - event.timestamp_ms


def _is_of_another_time(event: Event, fields: dict[str, Any]) -> bool:
    """Whether a watermark would follow it to a time that it can't be of."""
    at, ordered_at = (_ahead_ms(event, fields[name]) for name in ("at", "ordered_at"))
    bounds = DEFAULT_BOUNDS
    is_early = min(at, ordered_at) < -bounds.behind_ms_max
    return is_early or max(at, ordered_at) > bounds.ahead_ms_max


def _fields(told: Mapping[str, Any]) -> bytes:
    """What an object says, however it is written: Spark leaves out what is null, and writes times
    in its own way.
    """
    said = {name: value for name, value in told.items() if value is not None}
    for name in TIMES:
        if name in said:
            said[name] = datetime.fromisoformat(said[name]).timestamp()
    return json.dumps(said, sort_keys=True).encode()


def _revenue_fields(minute_and_region: str, cents: int, payments: int) -> bytes:
    minute, region = minute_and_region.split("/")
    told = {"minute": minute, "region": region, "revenue_cents": cents, "payments": payments}
    return _fields(told)


def _stock_fields(sku: str, stock: Stock) -> bytes:
    return _fields({"sku": sku, "level": stock.level, "version": stock.highest})


def _seen_order(output: Output) -> _Seen:
    told = json.loads(output.value)
    return _Seen(output.key, told["order_events"] + told["payment_events"], _fields(told))


def _seen_revenue(output: Output) -> _Seen:
    told = json.loads(output.value)
    return _Seen(output.key, told["payments"], _fields(told))


def _seen_stock(output: Output) -> _Seen:
    told = json.loads(output.value)
    return _Seen(output.key, told["version"], _fields(told))


def _latest(
    what: str, events: int, expected: Mapping[str, object], found: Iterable[_Seen]
) -> Finding:
    """The last record of each key is what it should be, and none was written twice."""
    last: dict[str, _Seen] = {}
    rows = duplicates = 0
    for seen in found:
        rows += 1
        before = last.get(seen.key)
        if before is not None and seen.progress <= before.progress:
            duplicates += 1
        last[seen.key] = seen
    wrong = sum(
        1 for key, seen in last.items() if key not in expected or expected[key] != seen.state
    )
    missing = sum(1 for key in expected if key not in last)
    return Finding(
        what=what, events=events, rows=rows, duplicates=duplicates, missing=missing, wrong=wrong
    )


def _disordered(expected: Iterable[Output], found: Iterable[Output]) -> int:
    """Keys whose records, as far as they are there, are in another order."""
    wanted = _by_key(expected)
    wrong = 0
    for key, values in _by_key(found).items():
        there = set(values)
        if list(dict.fromkeys(values)) != [one for one in wanted[key] if one in there]:
            wrong += 1
    return wrong


def _by_key(outputs: Iterable[Output]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = defaultdict(list)
    for key, value in outputs:
        found[key].append(value)
    return found
