"""Rows become record batches: each in its partition, in order, with all that it has."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.produce.partitioner import partition_of_key
from penstock.model.identity import TopicPartition
from penstock.records.batch import BatchView
from penstock.records.compression import Codec
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.errors import WrongColumns
from penstock.spark.sink.rows import BatchBuilder

NOW_MS = 1_700_000_000_000
COUNTS = {"orders": 5, "letters": 2}
ALL = Columns(value=0, key=1, topic=2, partition=3, headers=4, timestamp=5)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RAW_HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("headers", HEADERS),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


def row(value: bytes | None, **others: Any) -> dict[str, Any]:
    return {"topic": "orders", **others, "value": value}


def built(
    rows: list[dict[str, Any]],
    *,
    columns: Columns = ALL,
    topic: str | None = None,
    codec: Codec = Codec.NONE,
    batch_bytes: int = 10_000,
    turn: int = 0,
) -> dict[TopicPartition, list[Record]]:
    builder = BatchBuilder(
        columns=columns, topic=topic, codec=codec, batch_bytes=batch_bytes, turn=turn
    )
    chunk = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    found: dict[TopicPartition, list[Record]] = defaultdict(list)
    for place, batch in builder.batches(chunk, COUNTS, now_ms=NOW_MS):
        found[place] += records_of(BatchView(memoryview(batch)))
    return found


BYTES = st.none() | st.binary(max_size=40)
ROWS = st.lists(
    st.builds(
        row,
        BYTES,
        key=BYTES,
        topic=st.sampled_from(sorted(COUNTS)),
        partition=st.none() | st.integers(0, 1),
        headers=st.none()
        | st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": BYTES}), max_size=2),
    ),
    min_size=1,
    max_size=60,
)


@given(ROWS, st.integers(1, 400), st.sampled_from(Codec))
@settings(max_examples=60, deadline=None)
def test_every_row_is_in_its_partition_once_and_in_order(
    rows: list[dict[str, Any]], batch_bytes: int, codec: Codec
) -> None:
    found = built(rows, codec=codec, batch_bytes=batch_bytes)
    placed: dict[TopicPartition, list[tuple[object, ...]]] = defaultdict(list)
    anywhere: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for one in rows:
        headers = tuple((header["key"], header["value"]) for header in one["headers"] or ())
        content = (one["key"], one["value"], headers)
        count = COUNTS[one["topic"]]
        if one["partition"] is not None:
            placed[TopicPartition(one["topic"], one["partition"])].append(content)
        elif one["key"] is not None:
            partition = partition_of_key(one["key"], count)
            placed[TopicPartition(one["topic"], partition)].append(content)
        else:
            anywhere[one["topic"]].append(content)
    for place, records in found.items():
        told = [(record.key, record.value, tuple(record.headers)) for record in records]
        for wanted in placed.pop(place, []):
            # In order, with rows between that may be anywhere.
            while told[0] != wanted:
                anywhere[place.topic].remove(told.pop(0))
            told.pop(0)
        for left in told:
            anywhere[place.topic].remove(left)
    assert not placed
    assert not any(anywhere.values())


def test_rows_without_a_key_fill_batches_of_partitions_in_turn() -> None:
    rows = [row(b"x" * 100) for _ in range(100)]
    found = built(rows, batch_bytes=2_500, turn=3)
    sizes = [len(found[TopicPartition("orders", index)]) for index in range(5)]
    assert sum(sizes) == 100
    assert min(sizes) > 5
    few = built(rows[:3], batch_bytes=2_500, turn=3)
    assert list(few) == [TopicPartition("orders", 3)]


def test_timestamps_are_the_rows_or_now() -> None:
    then = datetime(2024, 5, 1, 12, 0, 0, 123_999, tzinfo=UTC)
    records = built([row(b"a", timestamp=then, partition=0), row(b"b", partition=0)])
    [times] = [[record.timestamp_ms for record in found] for found in records.values()]
    assert times == [1_714_564_800_123, NOW_MS]


def test_option_topic_goes_before_the_column() -> None:
    columns = Columns(value=0, key=1)
    found = built([row(b"a", topic="letters", key=b"k")], columns=columns, topic="orders")
    assert list(found) == [TopicPartition("orders", partition_of_key(b"k", 5))]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_columns_of_any_width_and_slices_of_them_are_read(kind: pa.DataType) -> None:
    values = pa.array(["skipped", "one", None, "two"], pa.string()).cast(kind).slice(1)
    builder = BatchBuilder(
        columns=Columns(value=0), topic="orders", codec=Codec.NONE, batch_bytes=10_000, turn=0
    )
    chunk = pa.record_batch([values], names=["value"])
    [(_, batch)] = builder.batches(chunk, COUNTS, now_ms=NOW_MS)
    found = [record.value for record in records_of(BatchView(memoryview(batch)))]
    assert found == [b"one", None, b"two"]


def test_partition_that_a_topic_does_not_have_is_refused() -> None:
    with pytest.raises(WrongColumns, match="partition is 5: topic orders has partitions 0 to 4"):
        built([row(b"a", partition=5)])
    with pytest.raises(WrongColumns, match="partition is -2"):
        built([row(b"a", partition=-2)])


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}])
def test_header_without_a_key_is_refused(header: dict[str, Any] | None) -> None:
    with pytest.raises(WrongColumns, match="a header without a key"):
        built([row(b"a", headers=[header])])


def test_row_without_a_topic_is_refused() -> None:
    with pytest.raises(WrongColumns, match="a row has no topic"):
        built([row(b"a", topic=None)])


@pytest.mark.parametrize(
    ("column", "told", "said"),
    [
        ("topic", b"\xffab", "the column topic"),
        ("headers", [{"key": b"\xffab", "value": b"x"}], "the key of a header"),
    ],
)
def test_names_that_are_not_utf8_are_refused(column: str, told: object, said: str) -> None:
    """Spark casts any bytes to a string, so a column of text may hold them."""
    place = SCHEMA.get_field_index(column)
    kind = pa.binary() if column == "topic" else RAW_HEADERS
    foreign = pa.array([told], kind).cast(SCHEMA.field(column).type, safe=False)
    chunk = pa.RecordBatch.from_pylist([row(b"a")], schema=SCHEMA)
    chunk = chunk.set_column(place, SCHEMA.field(column), foreign)
    builder = BatchBuilder(columns=ALL, topic=None, codec=Codec.NONE, batch_bytes=1000, turn=0)
    with pytest.raises(WrongColumns, match=rf"^{said} is not UTF-8 in a row: b'\\xffab'$"):
        list(builder.batches(chunk, COUNTS, now_ms=NOW_MS))
