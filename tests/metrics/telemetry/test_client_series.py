"""What clients push becomes series that fit Prometheus, whatever the clients send."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from penstock.broker.metrics.exposition import OPEN_METRICS, Exposition
from penstock.metrics.family import Kind, Sample
from penstock.metrics.telemetry.instances import Client, Instance
from penstock.metrics.telemetry.otlp import Meaning, Point
from penstock.metrics.telemetry.series import PREFIX, ClientSeries
from penstock.model.limit import TELEMETRY_SERIES_MAX, TELEMETRY_TEXT_CHARS_MAX

NAMES = st.text(max_size=12) | st.sampled_from(
    ["x", "x_total", "x.total", "x_created", "é", "total"]
)
POINTS = st.builds(
    Point,
    NAMES,
    st.sampled_from(Meaning),
    st.dictionaries(NAMES | st.sampled_from(["le", "__name__", "client_id"]), st.text(max_size=5)),
    st.floats(),
)


def instance(client_id: str = "c") -> Instance:
    client = Client(
        client_id=client_id, software_name="soft", software_version="1", host="h", port=1
    )
    return Instance(client=client, subscription_id=1, metrics=("*",), interval_ms=30_000, version=1)


def gauge(name: str, value: float, **attributes: str) -> Point:
    return Point(name, Meaning.GAUGE, attributes, value)


def told(series: ClientSeries) -> list[Sample]:
    series.check()
    return [one for one in series.samples() if one is not None]


def values(series: ClientSeries) -> dict[str, float]:
    return {one.family.name.removeprefix(PREFIX): one.value for one in told(series)}


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_a_series_says_whose_it_is() -> None:
    series = ClientSeries()
    series.take(key(1), instance("order-7"), [gauge("org.a.b-c", 5, topic="t")], now_ms=0)
    [sample] = told(series)
    assert sample.family.name == "penstock_client_org_a_b_c"
    assert dict(zip(sample.family.labels, sample.labels, strict=True)) == {
        "client_id": "order-7",
        "client_instance_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "client_software_name": "soft",
        "client_software_version": "1",
        "topic": "t",
    }


def test_a_push_takes_the_place_of_the_one_before() -> None:
    series = ClientSeries()
    series.take(key(1), instance(), [gauge("a", 1), gauge("b", 2)], now_ms=0)
    series.take(key(1), instance(), [gauge("b", 3)], now_ms=1)
    assert values(series) == {"b": 3}


def test_increases_are_added_up_and_totals_are_not() -> None:
    series = ClientSeries()
    for value in (5.0, 7.0):
        points = [Point("up", Meaning.INCREASE, {}, value), Point("all", Meaning.TOTAL, {}, value)]
        series.take(key(1), instance(), points, now_ms=0)
    series.take(key(1), instance(), [], now_ms=0)
    assert values(series) == {"up_total": 12}


def test_a_name_is_of_one_kind_in_a_scrape() -> None:
    series = ClientSeries()
    series.take(key(1), instance(), [Point("x", Meaning.TOTAL, {}, 1)], now_ms=0)
    series.take(key(2), instance(), [gauge("x", 2), gauge("x.total", 3)], now_ms=0)
    kinds = {one.family.name: one.family.kind for one in told(series)}
    assert kinds == {f"{PREFIX}x_total": Kind.COUNTER, f"{PREFIX}x_total_value": Kind.GAUGE}


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_counter_is_a_number_that_grows(value: float) -> None:
    series = ClientSeries()
    for meaning in (Meaning.TOTAL, Meaning.INCREASE):
        series.take(key(1), instance(), [Point("x", meaning, {}, value)], now_ms=0)
    assert told(series) == []
    assert series.left_out == 2


def test_series_of_a_client_that_has_gone_end() -> None:
    series = ClientSeries()
    series.take(key(1), instance(), [gauge("a", 1)], now_ms=1_000)
    series.expire(now_ms=90_999)
    assert series.count == 1
    series.expire(now_ms=91_000)
    assert (series.count, told(series)) == (0, [])


def test_there_are_never_more_series_than_the_bound() -> None:
    series = ClientSeries()
    clients, each = TELEMETRY_SERIES_MAX // 1000 + 1, 1000
    for number in range(clients):
        points = [gauge(f"m{one}", 1) for one in range(each)]
        series.take(key(number), instance(), points, now_ms=0)
        series.check()
    assert series.count == TELEMETRY_SERIES_MAX
    assert series.left_out == clients * each - TELEMETRY_SERIES_MAX
    series.take(key(0), instance(), [gauge("m", 1)], now_ms=0)  # makes room
    series.take(key(clients), instance(), [gauge("m", 1)], now_ms=0)
    assert series.count == TELEMETRY_SERIES_MAX - each + 2


def test_long_names_are_left_out_and_long_labels_cut() -> None:
    series = ClientSeries()
    long = "x" * (TELEMETRY_TEXT_CHARS_MAX + 1)
    series.take(key(1), instance(long), [gauge(long, 1), gauge("", 1), gauge("a", 1)], now_ms=0)
    [sample] = told(series)
    assert sample.labels[0] == long[:-1]
    assert series.left_out == 2


@given(st.lists(POINTS, max_size=8), st.text(max_size=8))
def test_whatever_is_pushed_a_scrape_can_be_read(points: list[Point], client_id: str) -> None:
    series = ClientSeries()
    series.take(key(1), instance(client_id), points[:4], now_ms=0)
    series.take(key(2), instance(client_id), points[4:], now_ms=0)
    samples = told(series)
    exposition = Exposition(())
    plain = exposition.page(samples, "").text.decode()
    read = [
        sample
        for family in text_string_to_metric_families(plain)
        for sample in family.samples
        if sample.name.startswith(PREFIX)
    ]
    assert len(read) == len(samples)
    assert len({(one.name, frozenset(one.labels.items())) for one in read}) == len(read)
    list(open_metrics_families(exposition.page(samples, OPEN_METRICS).text.decode()))
