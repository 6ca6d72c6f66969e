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
from penstock.model.limit import (
    TELEMETRY_ATTRIBUTES_MAX,
    TELEMETRY_BYTES_MAX,
    TELEMETRY_SERIES_BYTES_MAX,
    TELEMETRY_SERIES_MAX,
    TELEMETRY_SERIES_PER_CLIENT_MAX,
    TELEMETRY_TEXT_CHARS_MAX,
)

NAMES = st.text(max_size=12) | st.sampled_from(
    ["x", "x_total", "x.total", "x_created", "é", "total"]
)
POINTS = st.builds(
    Point,
    NAMES,
    st.sampled_from(Meaning),
    st.dictionaries(NAMES | st.sampled_from(["le", "__name__", "client_id"]), st.text(max_size=5)),
    st.floats(),
    st.dictionaries(NAMES, st.text(max_size=5)),
)


def instance(client_id: str = "c") -> Instance:
    client = Client(
        client_id=client_id, software_name="soft", software_version="1", host="h", port=1
    )
    return Instance(client=client, subscription_id=1, metrics=("*",), interval_ms=30_000, version=1)


def gauge(name: str, value: float, **attributes: str) -> Point:
    return Point(name, Meaning.GAUGE, attributes, value)


def push(
    series: ClientSeries, client: bytes, by: Instance, points: list[Point], *, at_ms: int = 0
) -> None:
    for _ in series.take(client, by, points, now_ms=at_ms):
        series.check()


def told(series: ClientSeries) -> list[Sample]:
    series.check()
    return [one for one in series.samples() if one is not None]


def values(series: ClientSeries) -> dict[str, float]:
    return {one.family.name.removeprefix(PREFIX): one.value for one in told(series)}


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_a_series_says_whose_it_is() -> None:
    series = ClientSeries()
    push(series, key(1), instance("order-7"), [gauge("org.a.b-c", 5, topic="t")])
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
    push(series, key(1), instance(), [gauge("a", 1), gauge("b", 2)])
    push(series, key(1), instance(), [gauge("b", 3)])
    assert values(series) == {"b": 3}


def test_increases_are_added_up_and_totals_are_not() -> None:
    series = ClientSeries()
    for value in (5.0, 7.0):
        points = [Point("up", Meaning.INCREASE, {}, value), Point("all", Meaning.TOTAL, {}, value)]
        push(series, key(1), instance(), points)
    push(series, key(1), instance(), [])
    assert values(series) == {"up_total": 12}


def test_a_name_is_of_one_kind_in_a_scrape() -> None:
    series = ClientSeries()
    push(series, key(1), instance(), [Point("x", Meaning.TOTAL, {}, 1)])
    push(series, key(2), instance(), [gauge("x", 2), gauge("x.total", 3)])
    kinds = {one.family.name: one.family.kind for one in told(series)}
    assert kinds == {f"{PREFIX}x_total": Kind.COUNTER, f"{PREFIX}x_total_value": Kind.GAUGE}


@pytest.mark.parametrize("name", ["x_created", "x_total_total"])
def test_a_counter_is_not_taken_for_a_part_of_another(name: str) -> None:
    series = ClientSeries()
    points = [Point(one, Meaning.TOTAL, {}, 1) for one in ("x", name)]
    push(series, key(1), instance(), points)
    page = Exposition(()).page(told(series), OPEN_METRICS).text.decode()
    families = [one.name for one in open_metrics_families(page) if one.name.startswith(PREFIX)]
    assert len(families) == 2


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_counter_is_a_number_that_grows(value: float) -> None:
    series = ClientSeries()
    for meaning in (Meaning.TOTAL, Meaning.INCREASE):
        push(series, key(1), instance(), [Point("x", meaning, {}, value)])
    assert told(series) == []
    assert series.left_out == 2


def test_series_of_a_client_that_has_gone_end() -> None:
    series = ClientSeries()
    push(series, key(1), instance(), [gauge("a", 1)], at_ms=1_000)
    series.expire(now_ms=90_999)
    assert series.count == 1
    series.expire(now_ms=91_000)
    assert (series.count, told(series)) == (0, [])


def test_there_are_never_more_series_than_the_bound() -> None:
    series = ClientSeries()
    clients, each = TELEMETRY_SERIES_MAX // 1000 + 1, 1000
    for number in range(clients):
        points = [gauge(f"m{one}", 1) for one in range(each)]
        push(series, key(number), instance(), points)
    assert series.count == TELEMETRY_SERIES_MAX
    assert series.left_out == clients * each - TELEMETRY_SERIES_MAX
    push(series, key(0), instance(), [gauge("m", 1)])  # makes room
    push(series, key(clients), instance(), [gauge("m", 1)])
    assert series.count == TELEMETRY_SERIES_MAX - each + 2


def test_long_names_are_left_out_and_long_labels_cut() -> None:
    series = ClientSeries()
    long = "x" * (TELEMETRY_TEXT_CHARS_MAX + 1)
    push(series, key(1), instance(long), [gauge(long, 1), gauge("", 1), gauge("a", 1)])
    [sample] = told(series)
    assert sample.labels[0] == long[:-1]
    assert series.left_out == 2


def test_a_label_is_no_longer_than_the_bound_when_it_is_escaped() -> None:
    series = ClientSeries()
    push(series, key(1), instance("\U0010ffff" * TELEMETRY_TEXT_CHARS_MAX), [gauge("a", 1)])
    [sample] = told(series)
    assert len(sample.labels[0]) == TELEMETRY_TEXT_CHARS_MAX


def test_attributes_of_a_resource_are_labels_unless_a_point_has_its_own() -> None:
    series = ClientSeries()
    shared = {"group": "g", "rack": "r", "zone": "z"}
    push(
        series,
        key(1),
        instance(),
        [Point("a", Meaning.GAUGE, {"rack": "x", "zone": ""}, 1, shared)],
    )
    [sample] = told(series)
    assert sample.family.labels[4:] == ("group", "rack")
    assert sample.labels[4:] == ("g", "x")


def test_a_series_with_too_large_labels_is_left_out() -> None:
    series = ClientSeries()
    fits = TELEMETRY_SERIES_BYTES_MAX // TELEMETRY_TEXT_CHARS_MAX - 1
    long = "é" * (TELEMETRY_TEXT_CHARS_MAX // 2)
    shared = {f"a{one}": long for one in range(fits)}
    push(series, key(1), instance(), [Point("a", Meaning.GAUGE, {}, 1, shared)])
    assert (series.count, series.left_out) == (1, 0)
    own = {f"b{one}": long for one in range(2)}
    push(series, key(1), instance(), [Point("a", Meaning.GAUGE, own, 1, shared)])
    assert (series.count, series.left_out) == (0, 1)


def test_labels_that_a_push_shares_do_not_make_an_endless_page() -> None:
    """A resource's attributes are sent once and stand in each line of a scrape."""
    series = ClientSeries()
    clients, each = TELEMETRY_SERIES_MAX // 1000, 1000
    shared = {f"a{one}": "x" * 100 for one in range(TELEMETRY_ATTRIBUTES_MAX)}
    for number in range(clients):
        points = [Point(f"m{one}", Meaning.GAUGE, {}, 1, shared) for one in range(each)]
        push(series, key(number), instance(), points)
    assert series.size_bytes > 0.99 * TELEMETRY_BYTES_MAX
    assert series.count + series.left_out == clients * each
    assert len(Exposition(()).page(told(series), "").text) < 2 * TELEMETRY_BYTES_MAX
    series.expire(now_ms=10**9)
    assert series.size_bytes == 0


def test_increases_of_many_pushes_are_no_more_series_than_a_client_may_have() -> None:
    series = ClientSeries()
    for number in range(3):
        names = (f"m{number}_{one}" for one in range(TELEMETRY_SERIES_PER_CLIENT_MAX // 2))
        push(series, key(1), instance(), [Point(name, Meaning.INCREASE, {}, 1) for name in names])
    assert series.count == TELEMETRY_SERIES_PER_CLIENT_MAX
    assert series.left_out == TELEMETRY_SERIES_PER_CLIENT_MAX // 2


def test_every_attribute_is_a_step_and_all_points_are_seen_at_once() -> None:
    series = ClientSeries()
    push(series, key(1), instance(), [gauge("before", 1)])
    points = [gauge(f"m{one}", 1, a="x", b="y") for one in range(50)]
    steps = 0
    for _ in series.take(key(1), instance(), points, now_ms=0):
        steps += 1
        assert values(series) == {"before": 1}
    assert steps >= 2 * len(points)
    assert len(values(series)) == 50


def test_pushes_that_take_turns_keep_the_bound() -> None:
    series = ClientSeries()
    points = [gauge(f"m{one}", 1) for one in range(TELEMETRY_SERIES_PER_CLIENT_MAX)]
    clients = TELEMETRY_SERIES_MAX // TELEMETRY_SERIES_PER_CLIENT_MAX + 1
    all_steps = [series.take(key(one), instance(), points, now_ms=0) for one in range(clients)]
    for _ in zip(*all_steps, strict=True):
        pass
    series.check()
    assert series.count == TELEMETRY_SERIES_MAX


@pytest.mark.parametrize("points", [[], [gauge("", 1)]])
def test_a_push_without_values_is_not_kept(points: list[Point]) -> None:
    series = ClientSeries()
    push(series, key(1), instance(), [gauge("a", 1)])
    for number in range(3):
        push(series, key(number), instance(), points)
    assert series.clients == 0


@given(st.lists(POINTS, max_size=8), st.text(max_size=8))
def test_whatever_is_pushed_a_scrape_can_be_read(points: list[Point], client_id: str) -> None:
    series = ClientSeries()
    push(series, key(1), instance(client_id), points[:4])
    push(series, key(2), instance(client_id), points[4:])
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
