"""What can be written is said before anything is: columns, options, modes."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from penstock.spark.data_source import PenstockDataSource
from penstock.spark.options import BadOption
from penstock.spark.sink.batch import BatchSink
from penstock.spark.sink.columns import Columns, columns_of
from penstock.spark.sink.errors import WrongColumns
from penstock.spark.sink.options import SinkMode, TwoPhase, sink_options

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
BYTES, TEXT, INT, LONG = BinaryType(), StringType(), IntegerType(), LongType()


def schema(**columns: DataType) -> StructType:
    found = StructType()
    for name, kind in columns.items():
        found.add(name, kind)
    return found


def test_columns_are_found_wherever_they_stand() -> None:
    told = schema(other=DoubleType(), Key=TEXT, value=BYTES, headers=HEADERS, partition=INT)
    found = columns_of(told, topic="orders")
    assert found == Columns(key=1, value=2, headers=3, partition=4)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (schema(key=BYTES), "column value is missing"),
        (schema(value=INT), "column value is of type int: it must be binary or string"),
        (schema(value=BYTES, partition=LONG), "partition is of type bigint: it must be int"),
        (
            schema(value=BYTES, headers=ArrayType(TEXT)),
            "must be array<struct<key:string,value:binary>>",
        ),
        (schema(value=BYTES, timestamp=LONG), "is of type bigint: it must be timestamp"),
        (schema(value=BYTES, key=MapType(TEXT, TEXT)), "must be binary or string"),
    ],
)
def test_wrong_columns_are_refused_in_one_line(told: StructType, said: str) -> None:
    with pytest.raises(WrongColumns, match=said):
        columns_of(told, topic="orders")


def test_topic_is_an_option_or_a_column() -> None:
    with pytest.raises(WrongColumns, match="give option topic, or a column topic"):
        columns_of(schema(value=BYTES), topic=None)
    assert columns_of(schema(value=BYTES, topic=TEXT), topic=None).topic == 1
    assert columns_of(schema(value=BYTES, topic=INT), topic="orders").topic is None


def test_options_are_read_by_kafkas_names() -> None:
    told = {
        "kafka.compression.type": "lz4",
        "kafka.batch.size": "1000",
        "kafka.transaction.timeout.ms": "5000",
        "delivery": "at_least_once",
        "twoPhase": "off",
    }
    found = sink_options(BOOTSTRAP | told)
    assert (found.codec.name, found.batch_bytes, found.timeout_ms) == ("LZ4", 1000, 5000)
    assert (found.mode, found.two_phase) == (SinkMode.AT_LEAST_ONCE, TwoPhase.OFF)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"kafka.compression.type": "rar"}, "it can be none or gzip or snappy or lz4 or zstd"),
        ({"batchId": "3", "runId": "r", "sinkId": "s"}, "option queryId is missing"),
        ({"batchId": "x", "runId": "r", "sinkId": "s", "queryId": "q"}, "option batchId is 'x'"),
        ({"delivery": "twice"}, "option delivery is .*: it can be exactly_once or at_least_once"),
        ({"delivery": "exactly_once", "mode": "exactly_once"}, "give delivery alone"),
        ({"sinkID2": "s"}, "did you mean sinkId"),
        ({"sinkId": "s" * 256}, "option sinkId has 256 characters: at most 255 are allowed"),
        ({"sinkId": "a\nb"}, "line breaks and control characters are not allowed"),
        ({"topic": "__penstock_sinks"}, "which holds nothing else"),
        (
            {"delivery": "at_least_once", "twoPhase": "required"},
            "option twoPhase is 'required', and delivery is 'at_least_once'",
        ),
    ],
)
def test_wrong_options_are_refused_in_one_line(told: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        sink_options(BOOTSTRAP | told)


@pytest.mark.parametrize("name", ["mode", "Mode"])
def test_former_name_of_delivery_is_understood_and_the_new_one_told(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = BOOTSTRAP | {name: "at_least_once", "topic": "orders"}
    assert sink_options(told).mode is SinkMode.AT_LEAST_ONCE
    PenstockDataSource(told).writer(schema(value=BYTES), False)
    assert [one.getMessage() for one in caplog.records] == [
        f"option {name} is called delivery now; it is still obeyed"
    ]


def test_checkpoint_names_the_sink_however_it_is_spelt() -> None:
    names = {
        sink_options(BOOTSTRAP | {"checkpointLocation": place}).query_sink
        for place in ("/data/orders", "/data/orders/", "file:/data/orders", "file:///data/orders")
    }
    assert len(names) == 1
    assert sink_options(BOOTSTRAP | {"sinkId": "orders"}).query_sink == "orders"
    with pytest.raises(BadOption, match="option sinkId is missing"):
        assert sink_options(BOOTSTRAP).query_sink


def test_topic_is_not_overwritten() -> None:
    options = sink_options(BOOTSTRAP | {"topic": "orders"})
    with pytest.raises(BadOption, match="append"):
        BatchSink(options, schema(value=BYTES), overwrite=True)
