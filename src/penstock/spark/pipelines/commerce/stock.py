"""The level of one article, event by event. Pure.

`updated` sets the level, `reserved` takes from it, `released` gives back, so their order decides:
versions count the events of an article from 1. An event that was there already changes nothing; one
that leaves less than nothing, or that comes where others are missing, makes an alert.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class StockEvent(NamedTuple):
    version: int
    event: str
    quantity: int
    event_id: str
    order_id: str | None


class Stock(NamedTuple):
    level: int
    version: int  # of the last event


class AlertKind(Enum):
    NEGATIVE = "negative"  # more was promised than there is
    GAP = "gap"  # events before this one have not come


class Alert(NamedTuple):
    kind: AlertKind
    level: int
    event: StockEvent


NO_STOCK = Stock(level=0, version=0)


def fold(stock: Stock, events: Iterable[StockEvent]) -> tuple[Stock, list[Alert]]:
    """The stock after the events, in order of their versions, and the alerts on the way."""
    alerts = []
    for event in sorted(events, key=lambda event: event.version):
        if event.version <= stock.version:
            continue
        level = level_after(stock.level, event.event, event.quantity)
        # The first event ever seen may be of any version: what was before it is out of retention.
        if stock.version and event.version != stock.version + 1:
            alerts.append(Alert(AlertKind.GAP, level, event))
        if level < 0:
            alerts.append(Alert(AlertKind.NEGATIVE, level, event))
        stock = Stock(level=level, version=event.version)
    return stock, alerts


def level_after(level: int, event: str, quantity: int) -> int:
    match event:
        case "updated":
            return quantity
        case "reserved":
            return level - quantity
        case "released":
            return level + quantity
        case _:
            raise AssertionError(event)  # the schema step has refused all others
