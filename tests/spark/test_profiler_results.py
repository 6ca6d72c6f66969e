"""Results of Spark's profiler are reported by processes that are profiled, and by no others."""

import cProfile
import sys
from collections.abc import Iterator

import pytest
from pyspark.accumulators import Accumulator, _accumulatorRegistry, _deserialize_accumulator
from pyspark.sql.profiler import ProfileResultsParam

from penstock.spark.profiler_results import RESULTS, drop_empty_results


@pytest.fixture
def reported() -> Iterator[dict[int, Accumulator[object]]]:
    """As in a process that Spark has just started to plan a query."""
    for result in RESULTS:
        _deserialize_accumulator(result, {}, ProfileResultsParam)
    yield _accumulatorRegistry
    for result in RESULTS:
        _accumulatorRegistry.pop(result, None)


def test_empty_results_are_dropped(reported: dict[int, Accumulator[object]]) -> None:
    drop_empty_results()
    drop_empty_results()
    assert not set(RESULTS) & set(reported)


def test_results_of_time_are_kept(reported: dict[int, Accumulator[object]]) -> None:
    with cProfile.Profile():
        drop_empty_results()
    assert set(RESULTS) <= set(reported)


def test_results_of_memory_are_kept(reported: dict[int, Accumulator[object]]) -> None:
    before = sys.gettrace()
    sys.settrace(lambda *event: None)  # as its profiler does
    try:
        drop_empty_results()
    finally:
        sys.settrace(before)
    assert set(RESULTS) <= set(reported)
