"""The columns of the source, and how they come about: gathered records to Arrow.

Names and types are those of Spark's own Kafka source. Who wants fewer columns says so with a schema
of the reader: Spark does not tell a Python source which columns a query uses.

Copies of a value on the way: 1. from the socket into the connection's buffer, 2. into the reply,
3. into the column; Spark's pipe to its JVM comes after that. Columns that are the same for every
row are made once and cut to size.
"""

from array import array
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.model.identity import TopicPartition
from penstock.records.columns import gather_columns
from penstock.records.gathered import GatheredColumns, HeaderColumns, Payload
from penstock.records.walked import BytesColumn
from penstock.spark.options import BadOption

HEADERS = "headers"
HEADER_TYPE = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
HEADERS_COLUMN = StructField(HEADERS, ArrayType(HEADER_TYPE))
MICROSECONDS = pa.timestamp("us", tz="UTC")
MICROSECONDS_PER_MS = 1000
SAME_MAX = 16  # columns of one value that are kept: a task may read thousands of partitions


def schema_of(*, include_headers: bool) -> StructType:
    return StructType([*COLUMNS.fields, HEADERS_COLUMN] if include_headers else [*COLUMNS.fields])


def check_schema(schema: StructType, *, include_headers: bool) -> None:
    """BadOption unless it is a choice of the columns that there are."""
    there = {field.name: field for field in schema_of(include_headers=True).fields}
    for field in schema.fields:
        known = there.get(field.name)
        if known is None:
            raise BadOption(f"there is no column {field.name}: there are {', '.join(there)}")
        if field.dataType.simpleString() != known.dataType.simpleString():
            raise BadOption(
                f"column {field.name} is {known.dataType.simpleString()}, and not"
                f" {field.dataType.simpleString()}: cast it after it was read"
            )
        if field.name == HEADERS and not include_headers:
            raise BadOption("column headers needs option includeHeaders=true")


class ColumnBuilder:
    """Makes record batches with the columns of a schema, each of one partition."""

    def __init__(self, schema: StructType) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._names = frozenset(self.schema.names)
        self._same: dict[str | int, pa.Array] = {}

    def build(
        self,
        partition: TopicPartition,
        payloads: Sequence[Payload],
        *,
        start: int,
        end: int,
        timestamp_type: int,
    ) -> pa.RecordBatch:
        """The records with start <= offset < end, which all have the same type of timestamp."""
        names = self._names
        found = gather_columns(
            payloads,
            start,
            end,
            "key" in names,
            "value" in names,
            HEADERS in names,
            MICROSECONDS_PER_MS,
        )
        arrays = [self._array(name, found, partition, timestamp_type) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(
        self, name: str, found: GatheredColumns, partition: TopicPartition, timestamp_type: int
    ) -> pa.Array:
        rows = found.row_count
        match name:
            case "key":
                assert found.keys is not None
                return _bytes_array(found.keys, rows, pa.binary())
            case "value":
                assert found.values is not None
                return _bytes_array(found.values, rows, pa.binary())
            case "topic":
                return self._repeated(partition.topic, rows)
            case "partition":
                return self._repeated(partition.partition, rows)
            case "offset":
                return _numbers(found.offsets, rows, pa.int64())
            case "timestamp":
                return _numbers(found.timestamps, rows, MICROSECONDS)
            case "timestampType":
                return self._repeated(timestamp_type, rows)
            case _:
                assert name == HEADERS, name
                assert found.headers is not None
                return _headers_array(found.headers, rows, self.schema.field(name).type)

    def _repeated(self, value: str | int, rows: int) -> pa.Array:
        known = self._same.get(value)
        if known is None or len(known) < rows:
            if len(self._same) >= SAME_MAX:
                self._same.clear()
            known = self._same[value] = _same_rows(value, rows)
        return known.slice(0, rows)


def _same_rows(value: str | int, rows: int) -> pa.Array:
    """Of buffers: a value that Arrow is asked to convert makes it import all of pandas."""
    if isinstance(value, str):
        data = value.encode()
        offsets = array("i", [at * len(data) for at in range(rows + 1)])
        parts = [None, pa.py_buffer(offsets), pa.py_buffer(data * rows)]
        return pa.Array.from_buffers(pa.string(), rows, parts)
    numbers = array("i", [value]) * rows
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(numbers)])


def _numbers(data: bytes, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def _bytes_array(column: BytesColumn, rows: int, kind: pa.DataType) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    parts = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, parts)


def _headers_array(headers: HeaderColumns, rows: int, kind: pa.DataType) -> pa.Array:
    count = len(headers.keys.offsets) // 4 - 1
    keys = _bytes_array(headers.keys, count, pa.string())
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = _bytes_array(headers.keys, count, pa.binary()).to_pylist()
        keys = pa.array([key.decode("utf-8", "replace") for key in raw], pa.string())
    values = _bytes_array(headers.values, count, pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    return pa.Array.from_buffers(
        kind, rows, [pa.py_buffer(headers.validity), pa.py_buffer(headers.bounds)], children=[pairs]
    )
