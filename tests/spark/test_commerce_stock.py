"""The level of an article, whatever comes in whatever pieces."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipelines.commerce.stock import (
    NO_STOCK,
    AlertKind,
    Stock,
    StockEvent,
    fold,
)


def event(version: int, what: str, quantity: int) -> StockEvent:
    return StockEvent(version, what, quantity, f"e-{version}", None)


happenings = st.lists(
    st.tuples(st.sampled_from(["updated", "reserved", "released"]), st.integers(0, 5)), max_size=30
).map(lambda rows: [event(at, what, count) for at, (what, count) in enumerate(rows, start=1)])


def test_what_is_promised_and_not_there_makes_an_alert_each_time() -> None:
    stock, alerts = fold(
        NO_STOCK,
        [event(1, "updated", 2), event(2, "reserved", 3), event(3, "reserved", 1),
         event(4, "released", 4)],
    )  # fmt: skip
    assert stock == Stock(level=2, version=4)
    assert [(alert.kind, alert.level) for alert in alerts] == [
        (AlertKind.NEGATIVE, -1),
        (AlertKind.NEGATIVE, -2),
    ]


def test_missing_events_are_told() -> None:
    stock, alerts = fold(Stock(level=5, version=3), [event(5, "reserved", 1)])
    assert stock == Stock(level=4, version=5)
    assert [alert.kind for alert in alerts] == [AlertKind.GAP]


def test_the_first_event_seen_may_have_any_version() -> None:
    assert fold(NO_STOCK, [event(9, "updated", 1)]) == (Stock(level=1, version=9), [])


@given(happenings, st.data())
def test_pieces_and_repeats_change_nothing(events: list[StockEvent], data: st.DataObject) -> None:
    whole, alerts = fold(NO_STOCK, events)
    cut = data.draw(st.integers(0, len(events)))
    repeated = data.draw(st.integers(0, cut))
    first, first_alerts = fold(NO_STOCK, data.draw(st.permutations(events[:cut])))
    second, second_alerts = fold(first, data.draw(st.permutations(events[repeated:])))
    assert (second, first_alerts + second_alerts) == (whole, alerts)
