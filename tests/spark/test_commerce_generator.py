"""The shop's generator: realistic, the same for the same seed, in order of each key."""

import json
from collections import Counter, defaultdict
from itertools import islice

from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.names import INVENTORY, ORDERS, PAYMENTS
from penstock.spark.pipelines.generated import Event

COUNT = 20_000


def told(seed: int) -> list[Event]:
    return list(islice(events(seed), COUNT))


def good(records: list[Event]) -> list[tuple[Event, dict[str, object]]]:
    found = []
    for event in records:
        try:
            found.append((event, json.loads(event.value or b"")))
        except ValueError:
            continue
    return found


def test_a_seed_tells_one_story() -> None:
    assert told(7) == told(7)
    assert told(7) != told(8)


def test_events_of_one_key_come_in_their_order_though_keys_do_not() -> None:
    versions: dict[tuple[str, bytes | None], list[object]] = defaultdict(list)
    times = []
    for event, fields in good(told(1)):
        versions[event.topic, event.key].append(fields["version"])
        times.append(event.timestamp_ms)
    assert all(seen == list(range(1, len(seen) + 1)) for seen in versions.values())
    assert times != sorted(times)


def test_events_come_in_the_proportions_of_the_shop() -> None:
    records = told(1)
    topics = Counter(event.topic for event in records)
    assert 1.7 < topics[PAYMENTS] / topics[ORDERS] < 2.4
    assert 3.3 < topics[INVENTORY] / topics[ORDERS] < 5.2
    broken = COUNT - len(good(records))
    assert 0 < broken < COUNT * 0.02
    happened = Counter(str(fields["event"]) for _, fields in good(records))
    assert min(happened[event] for event in ("cancelled", "failed", "released", "updated")) > 0
