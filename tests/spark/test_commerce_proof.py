"""The proof bites: what is lost, doubled, out of order or wrong is found."""

import json
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.lateness import PAYMENT_LATENESS
from penstock.spark.pipelines.commerce.proof import Output, Proof
from penstock.spark.pipelines.generated import Event
from rig.commerce import harms, is_sound


def ledger(count: int = 3_000) -> tuple[Proof, list[Output]]:
    """A proof of payments alone, and the output that proves it."""
    proof, out = Proof(), []
    for event in islice(payments(), count):
        proof.take(event)
        assert event.key is not None and event.value is not None
        out.append(Output(event.key.decode(), event.value))
    return proof, out


def payments() -> Iterator[Event]:
    return (event for event in events(3) if event.topic == names.PAYMENTS and is_sound(event))


def found(proof: Proof, out: list[Output]) -> tuple[int, int, int]:
    [finding] = [
        one for one in proof.findings({names.LEDGER: out}, None) if one.what == names.LEDGER
    ]
    return finding.duplicates, finding.missing, finding.wrong


def swapped(out: list[Output]) -> list[Output]:
    """The first two records of some key the other way round."""
    places: dict[str, int] = {}
    for place, (key, _) in enumerate(out):
        if key in places:
            first = places[key]
            out[first], out[place] = out[place], out[first]
            return out
        places[key] = place
    raise AssertionError("no key twice")


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (lambda out: out, (0, 0, 0)),
        (lambda out: out[1:], (0, 1, 0)),
        (lambda out: [*out, out[0]], (1, 0, 0)),
        (lambda out: [*out[1:], Output(out[0].key, b"{}")], (1, 1, 1)),
        (swapped, (0, 0, 1)),
    ],
)
def test_harm_to_single_records_is_found(
    harm: Callable[[list[Output]], list[Output]], expected: tuple[int, int, int]
) -> None:
    proof, out = ledger()
    assert found(proof, harm(out)) == expected


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (['{"sku":"s","level":3,"version":1}', '{"sku":"s","level":1,"version":2}'], (0, 0, 0)),
        (['{"sku":"s","level":1,"version":2}', '{"sku":"s","level":1,"version":2}'], (1, 0, 0)),
        (['{"sku":"s","level":3,"version":1}'], (0, 0, 1)),
        ([], (0, 1, 0)),
    ],
)
def test_a_state_that_is_wrong_or_written_twice_is_found(
    levels: list[str], expected: tuple[int, int, int]
) -> None:
    proof = Proof()
    for version, (event, quantity) in enumerate((("updated", 3), ("reserved", 2)), start=1):
        value = (
            f'{{"event_id":"i-{version}","event":"{event}","version":{version},'
            f'"quantity":{quantity}}}'
        )
        proof.take(Event(names.INVENTORY, b"s", value.encode(), 0))
    out = {names.STOCK_LEVELS: [Output("s", level.encode()) for level in levels]}
    [finding] = [one for one in proof.findings(out, None) if one.what == names.STOCK_LEVELS]
    assert (finding.duplicates, finding.missing, finding.wrong) == expected


def test_an_event_of_another_time_is_to_be_a_dead_letter_and_nothing_else() -> None:
    [wrong] = islice(
        (one for one in events(3) if (one.value or b"").endswith(b"}") and not is_sound(one)), 1
    )
    assert wrong.key is not None and wrong.value is not None
    proof = Proof()
    proof.take(wrong)
    letter = Output(wrong.key.decode(), wrong.value)
    assert all(one.proven for one in proof.findings({names.DEAD_LETTERS: [letter]}, None))
    [missing] = [one for one in proof.findings({}, None) if not one.proven]
    assert (missing.what, missing.missing) == (names.DEAD_LETTERS, 1)


AT = "2026-01-01T08:00:30.000Z"
AT_MS = 1_767_254_430_000
ORDER = {
    "event_id": "o-1", "order_id": "1", "customer_id": "ann", "event": "created", "version": 1,
    "region": "north", "items": [{"sku": "hat", "quantity": 7, "price_cents": 100}],
    "total_cents": 700, "shipping": "standard", "ordered_at": AT, "at": AT,
}  # fmt: skip
PAYMENT = {
    "transaction_id": "1-1", "order_id": "1", "customer_id": "ann", "attempt": 1,
    "region": "north", "amount_cents": 700, "reason": None, "ordered_at": AT, "at": AT,
}  # fmt: skip
INITIATED = PAYMENT | {"event_id": "p-1", "event": "initiated", "version": 1}
COMPLETED = PAYMENT | {"event_id": "p-2", "event": "completed", "version": 2}
COUNTED = {"event_id": "i-1", "event": "updated", "version": 1, "quantity": 5, "order_id": None}
RESERVED = {"event_id": "i-2", "event": "reserved", "version": 2, "quantity": 7, "order_id": "1"}
SENT = [
    (names.INVENTORY, "hat", COUNTED),
    (names.ORDERS, "1", ORDER),
    (names.INVENTORY, "hat", RESERVED),
    (names.PAYMENTS, "1-1", INITIATED),
    (names.PAYMENTS, "1-1", COMPLETED),
]


def test_a_payment_too_late_for_revenue_is_to_be_in_the_ledger_and_a_dead_letter() -> None:
    late_ms = PAYMENT_LATENESS.late_ms_max
    value = json.dumps(COMPLETED).encode()
    for record_ms, is_late in ((AT_MS + late_ms, False), (AT_MS + late_ms + 1, True)):
        proof = Proof()
        proof.take(Event(names.PAYMENTS, b"1-1", value, record_ms))
        right = outputs_of_one_payment()
        out = right | {names.DEAD_LETTERS: [Output("1-1", value)]}
        out |= {names.REVENUE: []}
        wrong, proven = (right, out) if is_late else (out, right)
        assert [one.what for one in proof.findings(proven, None) if not one.proven] == []
        assert {one.what for one in proof.findings(wrong, None) if not one.proven} == {
            names.DEAD_LETTERS,
            names.REVENUE,
        }


def outputs_of_one_payment() -> dict[str, list[Output]]:
    view = {name: COMPLETED[name] for name in ("order_id", "transaction_id", "attempt")}
    view |= {"ordered_at": AT, "status": "paid", "order_events": 0, "payment_events": 1}
    minute = {"minute": "2026-01-01T08:00Z", "region": "north", "revenue_cents": 700}
    return {
        names.LEDGER: rows(("1-1", COMPLETED)),
        names.ORDER_VIEW: rows(("1", view)),
        names.REVENUE: rows(("2026-01-01T08:00Z/north", minute | {"payments": 1})),
    }


def rows(*told: tuple[str, dict[str, object]]) -> list[Output]:
    return [Output(key, json.dumps(fields).encode()) for key, fields in told]


def outputs_of_one_order() -> dict[str, list[Output]]:
    """All that has to come of an order for seven hats, of which there are five."""
    fact = {name: ORDER[name] for name in ("event_id", "order_id", "event", "region", "at")}
    alert = {"sku": "hat", "kind": "negative", "level": -2, "event_id": "i-2", "version": 2}
    view = {name: ORDER[name] for name in ("order_id", "customer_id", "region", "total_cents")}
    view |= {"shipping": "standard", "transaction_id": "1-1", "attempt": 1, "ordered_at": AT}
    minute = {"minute": "2026-01-01T08:00Z", "region": "north"}
    notice = {"event_id": "o-1", "order_id": "1", "text": "we have your order"}
    return {
        names.FULFILMENT: rows(("1", ORDER)),
        names.ANALYTICS: rows(("north", fact | {"items": 1, "total_cents": 700})),
        names.NOTIFICATIONS: rows(("ann", notice)),
        names.LEDGER: rows(("1-1", INITIATED), ("1-1", COMPLETED)),
        names.DEAD_LETTERS: [Output("1", b'{"event_id"')],
        names.ORDER_VIEW: rows(
            ("1", view | {"status": "paid", "order_events": 1, "payment_events": 2})
        ),
        names.REVENUE: rows(
            ("2026-01-01T08:00Z/north", minute | {"revenue_cents": 700, "payments": 1})
        ),
        names.STOCK_LEVELS: rows(("hat", {"sku": "hat", "level": -2, "version": 2})),
        names.STOCK_ALERTS: rows(("hat", alert | {"order_id": "1"})),
    }


def test_a_row_lost_doubled_or_altered_is_found_in_each_output() -> None:
    proof, table = Proof(), {"hat": -2}
    for topic, key, fields in SENT:
        proof.take(Event(topic, key.encode(), json.dumps(fields).encode(), AT_MS))
    proof.take(Event(names.ORDERS, b"1", b'{"event_id"', AT_MS))
    right = outputs_of_one_order()
    assert [one for one in proof.findings(right, table) if not one.proven] == []
    harmed = list(harms(right))
    assert {topic for topic, _ in harmed} == set(right)
    for topic, outputs in harmed:
        wrong = [one.what for one in proof.findings(outputs, table) if not one.proven]
        assert wrong == [topic]
    for other in ({}, {"hat": -1}, {"hat": -2, "cap": 1}):
        [finding] = [one for one in proof.findings(right, other) if not one.proven]
        assert finding.what == f"table {names.STOCK_TABLE}"
