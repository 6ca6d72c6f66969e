"""The proof bites: what is lost, doubled, out of order or wrong is found."""

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.proof import Output, Proof
from penstock.spark.pipelines.generated import Event
from rig.commerce import is_sound


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
