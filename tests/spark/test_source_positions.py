"""What users say of where to read, and what is wrong with it in one line; no Spark is needed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.options import BadOption
from penstock.spark.source.errors import BadPosition, ForeignCheckpoint
from penstock.spark.source.options import source_options
from penstock.spark.source.positions import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    NoneThatYoung,
    as_json,
    covers,
    from_json,
    question,
    resolved,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NEEDED = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"}


def refused(streaming: bool = False, **options: str) -> str:
    with pytest.raises(BadOption) as error:
        source_options(NEEDED | options, streaming=streaming)
    text = str(error.value)
    assert "\n" not in text
    return text


@given(st.dictionaries(st.tuples(st.text(), st.integers(0, 99)), st.integers(0, 2**62)))
def test_offsets_come_back_from_a_checkpoint(told: dict[tuple[str, int], int]) -> None:
    offsets = {TopicPartition(*place): Offset(offset) for place, offset in told.items()}
    assert from_json(json.loads(json.dumps(as_json(offsets)))) == offsets


def test_equal_offsets_have_equal_texts_in_the_form_of_sparks_own_source() -> None:
    told = {TopicPartition("b", 0): 1, TopicPartition("a", 10): 2, TopicPartition("a", 9): 3}
    turned = dict(reversed(told.items()))
    assert json.dumps(as_json(told)) == json.dumps(as_json(turned))
    assert json.dumps(as_json(told)) == '{"a": {"9": 3, "10": 2}, "b": {"0": 1}}'


@pytest.mark.parametrize(
    "told", [{"offset": 5}, {"a": {"x": 1}}, {"a": {"0": -1}}, {"a": {"0": 1.5}}, [], 7, None]
)
def test_what_another_source_wrote_is_told_from_offsets(told: object) -> None:
    with pytest.raises(ForeignCheckpoint, match="another source"):
        from_json(told)


def test_times_weigh_more_than_offsets() -> None:
    everything = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"a": {"0": 7}}',
        "startingTimestamp": "9",
    }
    assert source_options(NEEDED | everything, streaming=True).starting == AtTime(9)
    del everything["startingTimestamp"]
    by_time = source_options(NEEDED | everything, streaming=True).starting
    assert isinstance(by_time, AtTimes)
    assert by_time.timestamps_ms == {A0: 7}


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert source_options(NEEDED, streaming=True).starting == LATEST
    assert source_options(NEEDED, streaming=False).starting == EARLIEST
    assert source_options(NEEDED, streaming=False).ending == LATEST


def test_places_of_partitions_are_offsets_or_ends_of_the_log() -> None:
    told = '{"a": {"0": 23, "1": -1}, "b": {"0": -2}}'
    where = source_options(NEEDED | {"startingOffsets": told}, streaming=True).starting
    assert isinstance(where, AtOffsets)
    assert where.places == {A0: 23, A1: Edge.LATEST, B0: Edge.EARLIEST}
    assert [question(where, one) for one in (A0, A1, B0)] == [None, -1, -2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "newest"}, "earliest, latest, or JSON such as"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets"),
        ({"startingOffsets": '{"a": {"0": 1}'}, "startingOffsets"),
        ({"startingOffsets": "latest"}, "can't be latest"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "can't be latest"),
        ({"endingOffsets": "earliest"}, "can't be earliest"),
        ({"endingOffsetsByTimestamp": "12"}, "endingOffsetsByTimestamp"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"subscribePattern": "a.*"}, "exactly one of"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number from 1 on"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "more than"),
        ({"maxOffsetsPerTriggerBy": "luck"}, "backlog or timestamp"),
        ({"minPartitions": "5", "maxPartitions": "4"}, "minPartitions is more than maxPartitions"),
        ({"maxTriggerDelay": "soon"}, "15m"),
        ({"maxBytesPerTrigger": "much"}, "500k, 10m or 1g"),
        ({"maxBytesPerTrigger": "0m"}, "500k, 10m or 1g"),
        ({"maxBytesPerTrigger": "b"}, "500k, 10m or 1g"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"kafka.isolation.level": "dirty"}, "read_committed or read_uncommitted"),
        ({"startingOfsets": "latest"}, "did you mean startingOffsets"),
    ],
)
def test_bad_options_are_told_in_one_line(options: dict[str, str], said: str) -> None:
    assert said in refused(**options)


@pytest.mark.parametrize("told", ["a", "[]", '{"a": 1}', '{"a": ["0"]}', "{}"])
def test_a_bad_assignment_is_told_in_one_line(told: str) -> None:
    with pytest.raises(BadOption, match="JSON such as"):
        source_options({"kafka.bootstrap.servers": "h:1", "assign": told}, streaming=False)


@pytest.mark.parametrize(
    ("told", "size_bytes"),
    [("1000", 1000), ("5k", 5120), ("10m", 10 * 2**20), ("1 GB", 2**30), ("7b", 7)],
)
def test_sizes_are_written_as_everywhere_in_spark(told: str, size_bytes: int) -> None:
    options = source_options(NEEDED | {"maxBytesPerTrigger": told}, streaming=True)
    assert options.bytes_per_trigger_max == size_bytes


def test_a_stream_has_no_end() -> None:
    assert "a stream has no end" in refused(streaming=True, endingOffsets="latest")


def test_a_pattern_matches_whole_names() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribePattern": "or.*s"}
    selection = source_options(options, streaming=False).selection
    assert selection.reads("orders")
    assert not selection.reads("orders-2")
    with pytest.raises(BadOption, match="no pattern"):
        source_options(options | {"subscribePattern": "("}, streaming=False)


def test_a_pattern_never_means_the_topics_of_brokers_and_sinks() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribePattern": ".*"}
    selection = source_options(options, streaming=True).selection
    assert selection.reads("_orders")
    assert not selection.reads("__penstock_sinks")


def test_places_told_one_by_one_are_those_of_all_partitions() -> None:
    where = AtOffsets(option="startingOffsets", places={A0: Offset(1), A1: Edge.LATEST})
    covers(where, [A0, A1])
    with pytest.raises(BadPosition, match="has no offset for b-0"):
        covers(where, [A0, A1, B0])
    with pytest.raises(BadPosition, match="names a-1, which is not read"):
        covers(where, [A0])


def test_a_time_after_the_last_record_is_an_error_or_the_end() -> None:
    latest = {A0: Offset(10), A1: Offset(20)}
    answers = {A0: Offset(4), A1: None}
    told = {"partitions": latest, "latest": latest}
    with pytest.raises(BadPosition, match="a-1 has no record at or after 99 ms"):
        resolved(AtTime(99), answers, none_that_young=NoneThatYoung.ERROR, **told)  # type: ignore[arg-type]
    found = resolved(AtTime(99), answers, none_that_young=NoneThatYoung.LATEST, **told)  # type: ignore[arg-type]
    assert found == {A0: 4, A1: 20}
