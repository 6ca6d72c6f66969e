"""A batch as the text of PostgreSQL's COPY: made by Spark and Arrow, a column at a time.

What Arrow can't write as CSV, Spark turns into text before: binary into bytea's hex form, structs,
arrays and maps into JSON. PostgreSQL turns the text into the types of its table, and says which
value does not fit.
"""

import pyarrow
import pyarrow.csv
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

CSV = "FORMAT csv"  # as said to COPY: no header, an empty field without quotes is NULL
CHUNK_ROWS = 16_384


def as_text(frame: DataFrame) -> DataFrame:
    """The same columns; those that CSV can't hold are text."""
    return frame.select([_text(field.name, field.dataType) for field in frame.schema.fields])


def csv_chunks(rows: pyarrow.Table) -> list[pyarrow.Buffer]:
    """The rows as CSV, in pieces for COPY: strings in quotes, so that "" is not NULL."""
    chunks = []
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in rows.to_batches(max_chunksize=CHUNK_ROWS):
        out = pyarrow.BufferOutputStream()
        pyarrow.csv.write_csv(batch, out, options)
        chunks.append(out.getvalue())
    return chunks


def _text(name: str, kind: DataType) -> Column:
    column = F.col(_quoted(name))
    match kind:
        case BinaryType():
            text = F.concat(F.lit("\\x"), F.hex(column))
        case StructType() | ArrayType() | MapType() | VariantType():
            text = F.to_json(column)
        case DayTimeIntervalType() | YearMonthIntervalType() | NullType():
            text = column.cast("string")
        case _:
            return column
    return text.alias(name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
