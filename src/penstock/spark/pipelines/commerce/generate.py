"""A day of the shop, as its producers would send it: the same for the same seed.

Customers order by day more than by night; a payment may fail and be tried again, an order may be
changed or cancelled, articles run out and are counted again. What happens is told in the order in
which it happens, but some of it is sent late, as by a till that lost its network: events come out
of order across keys, and always in order of one key. A few payments come after half an hour, from
a till that was offline and dates its records when it sends them: too late for revenue. A broken
client sends half an event at times, and one whose clock is wrong by years sends an event of an
order or a payment once more.

`_Story` decides what happens and when, `_Post` when it is sent.
"""

import heapq
import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.spark.pipelines.commerce.names import INVENTORY, ORDERS, PAYMENTS
from penstock.spark.pipelines.commerce.stock import level_after
from penstock.spark.pipelines.generated import START_MS, WRONG_TIMES_MS, Event, json_event

ORDERS_PER_DAY = 36_000  # with their changes: 50,000 events of orders
SKUS = 50_000
CUSTOMERS = 200_000
REGIONS = ("north", "south", "east", "west")
SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
DAY_MS = 24 * 60 * MINUTE_MS
PEAK_MS = 20 * 60 * MINUTE_MS  # of a day
SWING = 0.75  # the peak has (1 + SWING) times the average, the night (1 - SWING) times

UPDATED_SHARE = 0.28
CANCELLED_SHARE = 0.06
FAILED_SHARE = 0.27
TRIES_MAX = 3
BROKEN_SHARE = 0.005
WRONG_CLOCK_SHARE = 0.005  # of events of orders and payments
LATE_SHARE = 0.02
LATE_MS_MAX = 4 * MINUTE_MS  # less than DISORDER_MS_MAX: records keep the time of their events
OFFLINE_SHARE = 0.005  # of payments
OFFLINE_MS_MIN = 25 * MINUTE_MS  # more than PAYMENT_LATENESS
OFFLINE_MS_MAX = 45 * MINUTE_MS
COUNTS_PER_ORDER = 1.9  # articles that the warehouse counts in the meantime
HOT_SHARE = 0.96  # of what happens to stock concerns hot articles: half of all events

Happening = Callable[[int], None]


def events(seed: int, *, start_ms: int = START_MS, hot_skus: int = 0) -> Iterator[Event]:
    """Endless; `seed` is part of every id, so that two stories do not mix. With `hot_skus` half of
    all events are of so many articles.
    """
    assert 0 <= hot_skus <= SKUS
    return _Story(seed, start_ms, hot_skus).told()


class _Post:
    """Sends events when their time has come, those of one key in the order in which they came. What
    waits long is of a till that is offline: its record is dated by the sending.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Event]] = []
        self._sent_ms: dict[tuple[str, bytes | None], int] = {}
        self._count = 0

    def take(self, event: Event, *, send_ms: int) -> None:
        key = (event.topic, event.key)
        send_ms = max(send_ms, self._sent_ms.get(key, send_ms))
        self._sent_ms[key] = send_ms
        if send_ms - event.timestamp_ms > LATE_MS_MAX:
            event = event._replace(timestamp_ms=send_ms)
        self._count += 1
        heapq.heappush(self._waiting, (send_ms, self._count, event))

    def sent(self, *, now_ms: int) -> Iterator[Event]:
        while self._waiting and self._waiting[0][0] <= now_ms:
            send_ms, _, event = heapq.heappop(self._waiting)
            if self._sent_ms.get((event.topic, event.key)) == send_ms:
                del self._sent_ms[(event.topic, event.key)]
            yield event


class _Story:
    def __init__(self, seed: int, start_ms: int, hot_skus: int) -> None:
        self._seed = seed
        self._hot_skus = hot_skus
        self._start_ms = start_ms
        self._random = random.Random(seed)
        self._wrong_clocks = random.Random(f"wrong clocks {seed}")
        self._offline = random.Random(f"offline {seed}")
        self._post = _Post()
        self._agenda: list[tuple[int, int, Happening]] = []
        self._happenings = 0
        self._orders = 0
        self._levels: dict[str, int] = {}
        self._versions: dict[str, int] = {}  # of articles

    def told(self) -> Iterator[Event]:
        self._plan(self._start_ms, self._order)
        while True:
            now_ms, _, happening = heapq.heappop(self._agenda)
            happening(now_ms)
            yield from self._post.sent(now_ms=now_ms)

    def _plan(self, at_ms: int, happening: Happening) -> None:
        self._happenings += 1
        heapq.heappush(self._agenda, (at_ms, self._happenings, happening))

    def _send(self, topic: str, key: str, fields: dict[str, object], *, at_ms: int) -> None:
        chance = self._random
        event = json_event(
            topic, key=key, fields=fields | {"at": moment(at_ms)}, timestamp_ms=at_ms
        )
        late = chance.random() < LATE_SHARE
        delay_ms = chance.randrange(LATE_MS_MAX) if late else chance.randrange(2 * SECOND_MS)
        if topic == PAYMENTS and self._offline.random() < OFFLINE_SHARE:
            delay_ms = self._offline.randrange(OFFLINE_MS_MIN, OFFLINE_MS_MAX)
        self._post.take(event, send_ms=at_ms + delay_ms)
        if chance.random() < BROKEN_SHARE:
            assert event.value is not None
            half = event.value[: len(event.value) // 2]
            self._post.take(event._replace(value=half), send_ms=at_ms + delay_ms)
        if "ordered_at" in fields and self._wrong_clocks.random() < WRONG_CLOCK_SHARE:
            times = self._wrong_times(fields, at_ms)
            wrong = json_event(topic, key=key, fields=fields | times, timestamp_ms=at_ms)
            self._post.take(wrong, send_ms=at_ms + delay_ms)

    def _wrong_times(self, fields: dict[str, object], at_ms: int) -> dict[str, object]:
        """An event happened at a wrong time, or its order did."""
        wrong_ms = self._wrong_clocks.choice(WRONG_TIMES_MS)
        if self._wrong_clocks.random() < 0.5:
            return {"ordered_at": moment(wrong_ms), "at": moment(at_ms)}
        return {"ordered_at": fields["ordered_at"], "at": moment(wrong_ms)}

    # Orders and payments.

    def _order(self, now_ms: int) -> None:
        chance = self._random
        self._orders += 1
        order = _Order(f"{self._seed}-{self._orders:07d}", now_ms, chance, self._hot_skus)
        self._tell_order(order, "created", now_ms)
        for item in order.items:
            self._stock(item.sku, "reserved", item.quantity, order.id, at_ms=now_ms)
        self._plan(now_ms + chance.randrange(2_000, MINUTE_MS), lambda at: self._pay(order, 1, at))
        if chance.random() < UPDATED_SHARE:
            self._plan(
                now_ms + chance.randrange(MINUTE_MS, 10 * MINUTE_MS),
                lambda at: self._change(order, at),
            )
        if chance.random() < CANCELLED_SHARE:
            self._plan(
                now_ms + chance.randrange(MINUTE_MS, 30 * MINUTE_MS),
                lambda at: self._cancel(order, at),
            )
        for _ in range(int(COUNTS_PER_ORDER + chance.random())):
            self._stock_count(any_sku(chance, self._hot_skus), now_ms)
        self._plan(now_ms + self._pause_ms(now_ms), self._order)

    def _change(self, order: "_Order", now_ms: int) -> None:
        if not order.cancelled:
            order.shipping = "express"
            self._tell_order(order, "updated", now_ms)

    def _cancel(self, order: "_Order", now_ms: int) -> None:
        if order.cancelled:
            return
        order.cancelled = True
        self._tell_order(order, "cancelled", now_ms)
        for item in order.items:
            self._stock(item.sku, "released", item.quantity, order.id, at_ms=now_ms)

    def _tell_order(self, order: "_Order", event: str, now_ms: int) -> None:
        order.version += 1
        self._send(ORDERS, order.id, order.fields(event), at_ms=now_ms)

    def _pay(self, order: "_Order", attempt: int, now_ms: int) -> None:
        chance = self._random
        if order.cancelled:
            return
        self._tell_payment(order, attempt, "initiated", now_ms)
        failed = chance.random() < FAILED_SHARE
        outcome = "failed" if failed else "completed"
        done_ms = now_ms + chance.randrange(SECOND_MS, 10 * SECOND_MS)
        self._plan(done_ms, lambda at: self._tell_payment(order, attempt, outcome, at))
        if failed and attempt < TRIES_MAX:
            again_ms = done_ms + chance.randrange(20 * SECOND_MS, 2 * MINUTE_MS)
            self._plan(again_ms, lambda at: self._pay(order, attempt + 1, at))
        elif failed:
            self._plan(done_ms + SECOND_MS, lambda at: self._cancel(order, at))

    def _tell_payment(self, order: "_Order", attempt: int, event: str, now_ms: int) -> None:
        transaction = f"{order.id}-{attempt}"
        version = 1 if event == "initiated" else 2
        self._send(
            PAYMENTS,
            transaction,
            {
                "event_id": f"p-{transaction}-{version}",
                "transaction_id": transaction,
                "order_id": order.id,
                "customer_id": order.customer,
                "event": event,
                "attempt": attempt,
                "version": version,
                "region": order.region,
                "amount_cents": order.total_cents,
                "reason": "declined" if event == "failed" else None,
                "ordered_at": moment(order.ordered_ms),
            },
            at_ms=now_ms,
        )

    # Inventory.

    def _stock_count(self, sku: str, now_ms: int) -> None:
        """Somebody counts, and what had run out has been delivered by then."""
        level = self._levels.get(sku, 0)
        self._stock(sku, "updated", max(level, self._random.randrange(5, 60)), None, at_ms=now_ms)

    def _stock(self, sku: str, event: str, quantity: int, order: str | None, *, at_ms: int) -> None:
        if sku not in self._levels and event != "updated":
            self._stock_count(sku, at_ms)
        version = self._versions.get(sku, 0) + 1
        self._versions[sku] = version
        before = self._levels.get(sku, 0)
        self._levels[sku] = level_after(before, event, quantity)
        self._send(
            INVENTORY,
            sku,
            {
                "event_id": f"i-{self._seed}-{sku}-{version}",
                "sku": sku,
                "event": event,
                "version": version,
                "quantity": quantity,
                "order_id": order,
            },
            at_ms=at_ms,
        )

    def _pause_ms(self, now_ms: int) -> int:
        """Until the next order."""
        angle = 2 * math.pi * ((now_ms - PEAK_MS) % DAY_MS) / DAY_MS
        per_ms = ORDERS_PER_DAY / DAY_MS * (1 + SWING * math.cos(angle))
        return max(1, round(self._random.expovariate(per_ms)))


class _Item(NamedTuple):
    sku: str
    quantity: int
    price_cents: int


class _Order:
    """What is known of an order while it lasts."""

    def __init__(
        self, order_id: str, ordered_ms: int, chance: random.Random, hot_skus: int
    ) -> None:
        self.id = order_id
        self.ordered_ms = ordered_ms
        self.customer = f"c-{chance.randrange(CUSTOMERS):06d}"
        self.region = chance.choice(REGIONS)
        self.items = [
            _Item(any_sku(chance, hot_skus), chance.randint(1, 3), chance.randrange(199, 20_000))
            for _ in range(chance.randint(1, 4))
        ]
        self.total_cents = sum(item.quantity * item.price_cents for item in self.items)
        self.shipping = "standard"
        self.cancelled = False
        self.version = 0

    def fields(self, event: str) -> dict[str, object]:
        return {
            "event_id": f"o-{self.id}-{self.version}",
            "order_id": self.id,
            "customer_id": self.customer,
            "event": event,
            "version": self.version,
            "region": self.region,
            "items": [item._asdict() for item in self.items],
            "total_cents": self.total_cents,
            "shipping": self.shipping,
            "ordered_at": moment(self.ordered_ms),
        }


def any_sku(chance: random.Random, hot_skus: int) -> str:
    """Few articles are asked for often, and most hardly ever."""
    if hot_skus and chance.random() < HOT_SHARE:
        return f"sku-{chance.randrange(hot_skus):05d}"
    return f"sku-{int(SKUS * chance.random() ** 3):05d}"


def moment(at_ms: int) -> str:
    told = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return told.replace("+00:00", "Z")
