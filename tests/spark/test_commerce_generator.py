"""The shop's generator: realistic, the same for the same seed, in order of each key."""

import json
from collections import Counter, defaultdict
from datetime import datetime
from itertools import islice

from penstock.spark.pipelines.commerce.generate import OFFLINE_MS_MAX, events, moment
from penstock.spark.pipelines.commerce.lateness import PAYMENT_LATENESS
from penstock.spark.pipelines.commerce.names import INVENTORY, ORDERS, PAYMENTS
from penstock.spark.pipelines.generated import WRONG_TIMES_MS, Event
from rig.commerce import is_sound

COUNT = 20_000


def told(seed: int) -> list[Event]:
    return list(islice(events(seed), COUNT))


def good(records: list[Event]) -> list[tuple[Event, dict[str, object]]]:
    return [(event, json.loads(event.value or b"")) for event in records if is_sound(event)]


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
    broken = [event for event in records if not (event.value or b"").endswith(b"}")]
    assert 0 < len(broken) < COUNT * 0.02
    happened = Counter(str(fields["event"]) for _, fields in good(records))
    assert min(happened[event] for event in ("cancelled", "failed", "released", "updated")) > 0


def test_a_few_events_of_orders_and_payments_come_once_more_with_a_wrong_time() -> None:
    records = told(1)
    whole = [event for event in records if (event.value or b"").endswith(b"}")]
    wrong = [(event, json.loads(event.value or b"")) for event in whole if not is_sound(event)]
    assert 10 < len(wrong) < COUNT * 0.01
    assert {event.topic for event, _ in wrong} == {ORDERS, PAYMENTS}
    times = {moment(one) for one in WRONG_TIMES_MS}
    assert {fields["at"] for _, fields in wrong} >= times
    assert {fields["ordered_at"] for _, fields in wrong} >= times
    ids = {fields["event_id"] for _, fields in good(records)}
    assert len([fields for _, fields in wrong if fields["event_id"] in ids]) >= len(wrong) - 1


def test_a_few_payments_come_after_half_an_hour_and_are_dated_when_they_are_sent() -> None:
    records = list(islice(events(1), 5 * COUNT))
    behind = [
        (event.topic, event.timestamp_ms - millis(str(fields["at"])))
        for event, fields in good(records)
    ]
    late = [ms for topic, ms in behind if ms > 0]
    assert {topic for topic, ms in behind if ms > 0} == {PAYMENTS}
    # Events of the same transaction wait for the one that is offline, and may be less late.
    too_late = [ms for ms in late if ms > PAYMENT_LATENESS.late_ms_max]
    assert 20 < len(too_late) <= len(late) < len(records) * 0.01
    assert max(late) <= OFFLINE_MS_MAX


def millis(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000


def test_hot_articles_have_about_half_of_all_events() -> None:
    records = list(islice(events(1, hot_skus=2), 5 * COUNT))
    keys = Counter(event.key for event in records)
    hot = [key for key, _ in keys.most_common(2)]
    assert hot == [b"sku-00000", b"sku-00001"] or hot == [b"sku-00001", b"sku-00000"]
    assert 0.45 < sum(keys[key] for key in hot) / len(records) < 0.55
