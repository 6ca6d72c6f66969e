"""Counts that say that a proof of the shop would fail never say so of one that holds."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.proof import OUTPUTS, Finding, Output, Proof
from rig.awaited_rows import may_be_all, rows_least


def counts(found: Mapping[str, list[Output]]) -> dict[str, int]:
    return {topic: len(rows) for topic, rows in found.items()}


def test_rows_that_the_proof_misses_have_to_come() -> None:
    day = list(islice(events(1), 3_000))
    sent = Counter(event.topic for event in day)
    proof = Proof()
    for event in day:
        proof.take(event)
    found: dict[str, list[Output]] = {topic: [] for topic in OUTPUTS}
    assert not may_be_all(sent, counts(found))
    nothing = proof.findings(found, {})
    assert sum(one.events for one in nothing) > 0
    assert rows_least(0, nothing) == sum(one.missing for one in nothing if one.what in OUTPUTS) > 0


def test_the_rows_that_the_proof_asks_for_may_be_all() -> None:
    """Also where payments are late: each is in the ledger, and a dead letter besides."""
    day = [one for one in islice(events(1), 15_000) if one.topic != names.INVENTORY]
    proof = Proof()
    for event in day:
        proof.take(event)
    asked = {one.what: one.missing for one in proof.findings({}, None)}
    routed = (names.FULFILMENT, names.LEDGER, names.DEAD_LETTERS)
    assert sum(asked[topic] for topic in routed) > len(day)
    assert may_be_all(Counter(event.topic for event in day), asked)


def test_as_many_rows_as_events_may_be_all() -> None:
    sent = {names.ORDERS: 5, names.PAYMENTS: 3, names.INVENTORY: 2}
    whole = dict.fromkeys(OUTPUTS, 0) | {
        names.FULFILMENT: 4, names.ANALYTICS: 4, names.LEDGER: 3, names.DEAD_LETTERS: 1,
    }  # fmt: skip
    assert may_be_all(sent, whole)
    for topic in (names.FULFILMENT, names.LEDGER, names.DEAD_LETTERS, names.ANALYTICS):
        assert not may_be_all(sent, whole | {topic: whole[topic] - 1})


def test_states_that_are_wrong_take_a_row_each_and_the_table_none() -> None:
    def finding(what: str, *, missing: int = 0, wrong: int = 0) -> Finding:
        return Finding(
            what=what, events=9, rows=9, duplicates=0, missing=missing, wrong=wrong
        )  # fmt: skip

    findings = [
        finding(names.LEDGER, missing=2),
        finding(names.ORDER_VIEW, missing=1, wrong=3),
        finding(f"table {names.STOCK_TABLE}", missing=7, wrong=7),
    ]
    assert rows_least(100, findings) == 106
    assert rows_least(100, [finding(names.LEDGER)]) == 100
