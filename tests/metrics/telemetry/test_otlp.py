"""Gauges and sums are read from OpenTelemetry's protobuf, and nothing else is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics.telemetry.otlp import MalformedTelemetry, Meaning, Point, Read, read_points
from penstock.model.limit import TELEMETRY_ATTRIBUTES_MAX
from rig.otlp import attribute, field, gauge, metrics_data, number_field, point, total, varint


def read(data: bytes, *, points_max: int = 100) -> Read:
    steps = read_points(data, points_max=points_max)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: Read = finished.value
            return result


def test_gauges_and_sums_are_read_with_the_attributes_of_their_resource() -> None:
    data = metrics_data(
        gauge("latency", point(1.5, node_id=1), point(2.5, node_id=-2)),
        total("sent", point(7)),
        total("more", point(3, flag=True, part=0.5), is_increase=True),
        total("open", point(4), monotonic=False),
        group_id="g",
    )
    shared = {"group_id": "g"}
    assert read(data) == Read(
        [
            Point("latency", Meaning.GAUGE, {"node_id": "1"}, 1.5, shared),
            Point("latency", Meaning.GAUGE, {"node_id": "-2"}, 2.5, shared),
            Point("sent", Meaning.TOTAL, {}, 7, shared),
            Point("more", Meaning.INCREASE, {"flag": "true", "part": "0.5"}, 3, shared),
            Point("open", Meaning.GAUGE, {}, 4, shared),
        ],
        0,
    )


def test_histograms_and_unknown_fields_are_passed_over() -> None:
    histogram = field(1, "h") + field(9, field(1, b"\x09" + bytes(8)))
    unknown = number_field(99, 5) + field(98, b"x") + varint(97 << 3 | 5) + bytes(4)
    data = metrics_data(histogram, gauge("g", point(1) + unknown) + unknown) + unknown
    assert read(data).points == [Point("g", Meaning.GAUGE, {}, 1)]


def test_values_that_are_no_labels_are_left_out() -> None:
    array = field(1, "list") + field(2, field(5, b""))
    data = metrics_data(gauge("g", point(1) + field(7, array)))
    assert read(data).points == [Point("g", Meaning.GAUGE, {}, 1)]


def test_what_is_beyond_the_bound_is_counted() -> None:
    data = metrics_data(*(gauge(f"g{one}", point(one), point(one)) for one in range(3)))
    kept = read(data, points_max=3)
    assert [one.name for one in kept.points] == ["g0", "g0", "g1"]
    assert kept.left_out == 3


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # no length
        b"\x0a\x05abc",  # cut off
        b"\x0b",  # a group
        b"\x02\x00",  # number 0
        b"\x08" + b"\xff" * 11,  # a number without an end
        metrics_data(field(1, b"\xff\xfe")),  # no UTF-8
        metrics_data(gauge("g", varint(4 << 3 | 1) + bytes(7))),  # half of a double
        metrics_data(
            gauge(
                "g",
                point(1, **{f"a{one}": "x" for one in range(TELEMETRY_ATTRIBUTES_MAX + 1)}),
            )
        ),
    ],
)
def test_what_is_malformed_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedTelemetry):
        read(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for nested in (data, field(1, data), metrics_data(data), metrics_data(gauge("g", data))):
        try:
            read(nested)
        except MalformedTelemetry:
            continue


def test_every_field_is_a_step() -> None:
    """So that no push, whatever is in it, keeps others waiting."""
    many = b"".join(number_field(99, 0) for _ in range(1000))
    for data in (many, field(1, many), metrics_data(many), metrics_data(gauge("g", many))):
        assert sum(1 for _ in read_points(data, points_max=1)) >= 1000
    keys = field(7, attribute("a", "b") + many)
    assert sum(1 for _ in read_points(metrics_data(gauge("g", keys)), points_max=1)) >= 1000
