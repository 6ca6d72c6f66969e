"""The level of one article, event by event. Pure.

`updated` sets the level, `reserved` takes from it, `released` gives back, so their order decides:
versions count the events of an article from 1. An event that leaves less than nothing makes an
alert, and so does one that comes where others are missing.

Those others may come yet, as from the dead letters. So what came ahead of them is kept, and events
count in the order of their versions in whatever order they come, each once. Of more than AHEAD_MAX
that came ahead the first is taken as it is, and what is missing before it is given up.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

AHEAD_MAX = 100


class StockEvent(NamedTuple):
    version: int
    event: str
    quantity: int
    event_id: str = ""
    order_id: str | None = None


class Stock(NamedTuple):
    """Invariants: `ahead` is in order of versions, all of them above `version` + 1 (something is
    missing before each), and there are at most AHEAD_MAX.
    """

    settled: int  # the level after all events up to `version`
    version: int  # 0: no event was seen yet
    ahead: tuple[StockEvent, ...]

    @property
    def level(self) -> int:
        return self.levels()[-1]

    @property
    def highest(self) -> int:
        return self.ahead[-1].version if self.ahead else self.version

    def levels(self) -> list[int]:
        """Now, and after each of those ahead."""
        levels = [self.settled]
        for event in self.ahead:
            levels.append(level_after(levels[-1], event.event, event.quantity))
        return levels

    def knows(self, version: int) -> bool:
        return version <= self.version or any(event.version == version for event in self.ahead)


class AlertKind(Enum):
    NEGATIVE = "negative"  # more was promised than there is
    GAP = "gap"  # events before this one have not come


class Alert(NamedTuple):
    kind: AlertKind
    level: int
    event: StockEvent


NO_STOCK = Stock(settled=0, version=0, ahead=())


def fold(stock: Stock, events: Iterable[StockEvent]) -> tuple[Stock, list[Alert]]:
    """The stock after the events, and the alerts that they make."""
    alerts = []
    for event in sorted(events, key=lambda event: event.version):
        if stock.knows(event.version):
            continue
        # The first event ever seen may be of any version: what was before it is out of retention.
        if stock.version and event.version > stock.highest + 1:
            alerts.append(Alert(AlertKind.GAP, stock.level, event))
        stock, least = _taken(stock, event)
        if least < 0:
            alerts.append(Alert(AlertKind.NEGATIVE, least, event))
    return stock, alerts


def _taken(stock: Stock, event: StockEvent) -> tuple[Stock, int]:
    """With the event in its place; and the least level from there on."""
    if stock.version == 0:
        stock = stock._replace(version=event.version - 1)
    ahead = tuple(sorted((*stock.ahead, event), key=lambda event: event.version))
    stock = stock._replace(ahead=ahead)
    least = min(stock.levels()[ahead.index(event) + 1 :])
    while stock.ahead and (
        stock.ahead[0].version == stock.version + 1 or len(stock.ahead) > AHEAD_MAX
    ):
        first, *rest = stock.ahead
        stock = Stock(
            settled=level_after(stock.settled, first.event, first.quantity),
            version=first.version,
            ahead=tuple(rest),
        )
    return stock, least


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
