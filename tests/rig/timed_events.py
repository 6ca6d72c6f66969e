"""Events of the shop and of the clickstream, by number and time, and the letters they became."""

from collections.abc import Sequence

from pyspark.sql import Row

from penstock.spark.dead_letter_headers import REASON
from penstock.spark.pipelines.commerce.generate import moment
from penstock.spark.pipelines.generated import START_MS

MINUTE_MS = 60_000
IN_2099_MS = 4_070_908_800_000


def order(number: int, at_ms: int, *, ordered_ms: int | None = None) -> dict[str, object]:
    return {
        "event_id": f"o-{number}",
        "order_id": str(number),
        "customer_id": "ann",
        "event": "created",
        "version": 1,
        "region": "north",
        "items": [],
        "total_cents": 100,
        "shipping": "standard",
        "ordered_at": moment(at_ms if ordered_ms is None else ordered_ms),
        "at": moment(at_ms),
    }


def payment(number: int, at_ms: int, *, ordered_ms: int | None = None) -> dict[str, object]:
    return {
        "event_id": f"p-{number}",
        "transaction_id": str(number),
        "order_id": str(number),
        "customer_id": "ann",
        "event": "completed",
        "attempt": 1,
        "version": 2,
        "region": "north",
        "amount_cents": 100,
        "reason": None,
        "ordered_at": moment(at_ms if ordered_ms is None else ordered_ms),
        "at": moment(at_ms),
    }


def purchase(number: int, at_ms: int) -> dict[str, object]:
    return {
        "event_id": f"e-{number}",
        "user_id": "u1",
        "kind": "purchase",
        "at_ms": at_ms,
        "device": "phone",
        "country": "DE",
        "card": "c1",
        "amount_cents": 100,
    }


def minute(number: int) -> int:
    return START_MS + number * MINUTE_MS


def letters(rows: Sequence[Row], topic: str) -> list[tuple[bytes, str]]:
    """Values and reasons."""
    return [
        (bytes(row.value), dict(row.headers)[REASON].decode()) for row in rows if row.topic == topic
    ]
