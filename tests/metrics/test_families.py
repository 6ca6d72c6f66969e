"""Samples of families, and of histograms."""

import pytest

from penstock.metrics.family import Family, Kind, Sample, counter, gauge, printable
from penstock.metrics.histogram import Histogram

LAG = Family(name="lag_seconds", kind=Kind.HISTOGRAM, help="How late.")


def test_a_sample_has_a_value_for_each_label() -> None:
    size = gauge("size", "Bytes.", "topic", "partition")
    assert size.sample(3, "orders", "0") == Sample(size, 3, ("orders", "0"))
    with pytest.raises(AssertionError):
        size.sample(3, "orders")


def test_the_name_of_a_counter_and_of_nothing_else_ends_with_total() -> None:
    assert counter("errors_total", "Errors.").kind is Kind.COUNTER
    with pytest.raises(AssertionError):
        counter("errors", "Errors.")
    with pytest.raises(AssertionError):
        gauge("errors_total", "Errors.")


def test_buckets_count_what_is_at_most_their_bound() -> None:
    histogram = Histogram(LAG, (0.5, 1))
    for value in (0.25, 0.5, 0.75, 1, 4):
        histogram.note(value)
    assert [(one.suffix, one.labels, one.value) for one in histogram.samples()] == [
        ("_bucket", ("0.5",), 2),
        ("_bucket", ("1.0",), 4),
        ("_bucket", ("+Inf",), 5),
        ("_sum", (), 6.5),
        ("_count", (), 5),
    ]


def test_a_path_that_is_no_text_can_be_told() -> None:
    assert printable("/data/\udcff") == "/data/\\udcff"
    assert printable("/datä") == "/datä"
