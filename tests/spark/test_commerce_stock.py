"""The level of an article, whatever comes in whatever pieces."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipelines.commerce.stock import (
    AHEAD_MAX,
    NO_STOCK,
    AlertKind,
    Stock,
    StockEvent,
    fold,
)


def event(version: int, what: str, quantity: int) -> StockEvent:
    return StockEvent(version, what, quantity, f"e-{version}", None)


happenings = st.lists(
    st.tuples(st.sampled_from(["updated", "reserved", "released"]), st.integers(0, 5)),
    min_size=1,
    max_size=30,
).map(lambda rows: [event(at, what, count) for at, (what, count) in enumerate(rows, start=1)])


def test_what_is_promised_and_not_there_makes_an_alert_each_time() -> None:
    stock, alerts = fold(
        NO_STOCK,
        [event(1, "updated", 2), event(2, "reserved", 3), event(3, "reserved", 1),
         event(4, "released", 4)],
    )  # fmt: skip
    assert stock == Stock(settled=2, version=4, ahead=())
    assert [(alert.kind, alert.level) for alert in alerts] == [
        (AlertKind.NEGATIVE, -1),
        (AlertKind.NEGATIVE, -2),
    ]


def test_missing_events_are_told_and_count_in_their_place_when_they_come() -> None:
    before = Stock(settled=5, version=3, ahead=())
    gapped, alerts = fold(before, [event(5, "reserved", 1)])
    assert (gapped.level, gapped.highest) == (4, 5)
    assert [alert.kind for alert in alerts] == [AlertKind.GAP]
    # A count of what there was before the reservation, mended and replayed.
    assert fold(gapped, [event(4, "updated", 9)]) == (Stock(settled=8, version=5, ahead=()), [])


def test_a_late_event_that_leaves_less_than_nothing_later_on_makes_an_alert() -> None:
    gapped, _ = fold(Stock(settled=5, version=1, ahead=()), [event(3, "reserved", 5)])
    stock, [alert] = fold(gapped, [event(2, "reserved", 1)])
    assert (stock.level, alert.kind, alert.level) == (-1, AlertKind.NEGATIVE, -1)


def test_the_first_event_seen_may_have_any_version() -> None:
    first = Stock(settled=1, version=9, ahead=())
    assert fold(NO_STOCK, [event(9, "updated", 1)]) == (first, [])


def test_what_stays_missing_is_given_up_at_last() -> None:
    stock, _ = fold(NO_STOCK, [event(1, "updated", 1000)])
    stock, alerts = fold(stock, [event(3 + at, "reserved", 1) for at in range(2 * AHEAD_MAX)])
    assert (stock.level, stock.ahead, len(alerts)) == (1000 - 2 * AHEAD_MAX, (), 1)


@given(happenings, st.data())
def test_neither_pieces_nor_repeats_nor_order_change_the_level(
    events: list[StockEvent], data: st.DataObject
) -> None:
    whole, alerts = fold(NO_STOCK, events)
    shuffled = data.draw(st.permutations(events[1:] * 2))
    stock, _ = fold(NO_STOCK, events[:1])
    for one in shuffled:
        stock, _ = fold(stock, [one])
    assert stock == whole
    cut = data.draw(st.integers(0, len(events)))
    first, first_alerts = fold(NO_STOCK, events[:cut])
    second, second_alerts = fold(first, events)
    assert (second, first_alerts + second_alerts) == (whole, alerts)
