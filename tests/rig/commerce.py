"""What the generator of the shop has made on purpose that is no event, and harm to outputs."""

import json
from collections.abc import Iterator
from datetime import datetime

from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce.proof import Output
from penstock.spark.pipelines.generated import Event

DAY_MS = 86_400_000


def is_sound(event: Event) -> bool:
    """It is JSON, and of the days around its record's timestamp."""
    try:
        fields = json.loads(event.value or b"")
    except ValueError:
        return False
    times = [fields[name] for name in ("at", "ordered_at") if name in fields]
    return all(
        abs(datetime.fromisoformat(time).timestamp() * 1000 - event.timestamp_ms) < DAY_MS
        for time in times
    )


def harms(found: dict[str, list[Output]]) -> Iterator[tuple[str, dict[str, list[Output]]]]:
    """The outputs with one row lost, doubled or altered in one field, and the topic of that row;
    at last with two payments of one transaction exchanged.
    """
    for topic, rows in found.items():
        for last in rows[-1:]:
            yield topic, found | {topic: rows[:-1]}
            yield topic, found | {topic: [*rows, last]}
            for value in altered(topic, last.value):
                yield topic, found | {topic: [*rows[:-1], last._replace(value=value)]}
    ledger = list(found[names.LEDGER])
    keys = [row.key for row in ledger]
    first = next(place for place, key in enumerate(keys) if key in keys[place + 1 :])
    second = keys.index(keys[first], first + 1)
    ledger[first], ledger[second] = ledger[second], ledger[first]
    yield names.LEDGER, found | {names.LEDGER: ledger}


def altered(topic: str, value: bytes) -> Iterator[bytes]:
    """Each field in turn, where Spark has made the value; others have to be as they came."""
    if topic in (names.FULFILMENT, names.LEDGER, names.DEAD_LETTERS):
        yield value + b" "
        return
    fields = json.loads(value)
    for name, told in fields.items():
        other = "2026-01-01T00:00:00Z" if name in ("at", "ordered_at") else f"{told}x"
        yield json.dumps(fields | {name: told + 1 if isinstance(told, int) else other}).encode()
