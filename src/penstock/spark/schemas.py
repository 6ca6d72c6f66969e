"""JSON with a declared schema: parses a column of bytes, and gives a reason for each bad row.

    orders = schemas.parse_json(rows, "id string NOT NULL, amount bigint NOT NULL, note string")

adds two columns: `parsed`, a struct of the schema, and `reason`, one sentence that names what is
wrong. One of them is always null. The sentences contain no values, so that they can be counted.

The schema is strict: a field that is NOT NULL must be present, a number in quotes is not a number,
and a value must be UTF-8 and exactly one JSON object; NaN and Infinity are not JSON. As everywhere
in Spark, a string field accepts any JSON value as text, fields that the schema does not name are
ignored, and of two fields with the same name the last one is used.

Spark's own PERMISSIVE mode tells that a row is bad and not why, so a bad row is looked at again, as
a variant and field by field; a good row is parsed once. It is all done by Spark's own functions,
without a Python worker. A stream's plan is made anew for every batch, so it has to stay small: what
is said of each field is data, one constant for each struct, and not an expression. It is still
three times that of a bare `from_json`. So this is for topics that others write to, one or two in
a query, with batches seconds apart.

Where there are many topics, or batches every few hundred milliseconds, `BriefJson` accepts the same
rows and says less of the others: which required field is missing, but not which one does not fit.
Its plan is that of one `from_json` and a few comparisons.
"""

import json
from collections.abc import Iterator
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

PARSED = "parsed"
REASON = "reason"

# Spark stops reading where the first JSON value ends. So the document is parsed as the field of
# another one, and counted as the element of an array. What follows it could pass for a part of one
# of these or close it, never both: a `}` is a fault in the array, a `]` is one in the object, and
# after a comma there are two elements.
_DOCUMENT = "document"
_CORRUPT = "_corrupt"
# Columns on the way.
_RAW = "_penstock_raw"
_FAULTY = "_penstock_faulty"
_FIELDS = "_penstock_fields"
_FIELDS_TYPE = "map<string, variant>"
# What is said of a field.
_SAID = (
    "array<struct<key: string, name: string, wanted: string, takes: array<string>, must: boolean>>"
)
_UNFIT = "the value does not fit the schema"
_NULL = "VOID"  # Spark's name for the type of a JSON null
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


class BriefJson:
    """The same rule as columns, for a query that puts its own plan together:

        order = BriefJson("id string NOT NULL, amount bigint NOT NULL")
        raw = frame.withColumn("raw", order.raw(text))
        judged = raw.select(order.value(F.col("raw")), order.fault(text, F.col("raw")))

    The raw column must be one of the frame, or Spark parses the text for each use of it.
    """

    def __init__(self, schema: str | StructType) -> None:
        self._wanted = _struct(schema)

    def raw(self, text: Column) -> Column:
        return _from_json(text, self._wanted)

    def value(self, raw: Column) -> Column:
        """The typed struct. Of a bad row, anything: ask for the fault."""
        return raw[_DOCUMENT]

    def fault(self, text: Column, raw: Column) -> Column:
        """One sentence, or null for a good row."""
        typed = raw[_DOCUMENT]
        missing = [
            F.when(typed[field.name].isNull(), F.lit(f"field {_plain(field.name)} is missing"))
            for field in self._wanted.fields
            if not field.nullable
        ]
        return F.coalesce(
            F.when(text.isNull(), F.lit("the value is null")),
            F.when(~F.is_valid_utf8(text), F.lit("the value is not UTF-8")),
            F.when(~_is_one(text), F.lit("the value is not valid JSON")),
            F.when(raw[_CORRUPT].isNotNull() | typed.isNull(), F.lit(_UNFIT)),
            *missing,
            *self._missing_within(typed),
        )

    def _missing_within(self, typed: Column) -> Iterator[Column]:
        """Of fields that have required ones themselves."""
        for field in self._wanted.fields:
            lacks = _lacks(field.dataType, typed[field.name])
            if lacks is not None:
                yield F.when(lacks, F.lit(f"field {_plain(field.name)} lacks something"))


def parse_json(
    frame: DataFrame,
    schema: str | StructType,
    *,
    column: str = "value",
    into: str = PARSED,
    reason: str = REASON,
) -> DataFrame:
    """The frame with two more columns: the typed struct, null for a bad row, and the reason, null
    for a good one. `schema` is Spark's, or DDL: `id string NOT NULL, amount bigint`.

    A null value, as of a tombstone, is not JSON: filter such rows out before, or they are bad.
    """
    wanted = _struct(schema)
    text = F.col(column).cast("string")
    step = frame.withColumn(_RAW, _from_json(text, wanted))
    typed = F.col(_RAW)[_DOCUMENT]
    faulty = _is_faulty(text, F.col(_RAW), wanted)
    # Only a bad row is looked at again: what is asked of the null of a good one costs nothing.
    fields = F.when(faulty, _fields_of(F.try_parse_json(_wrapped(text))))
    step = step.withColumns({_FAULTY: faulty, _FIELDS: fields})
    why = F.when(F.col(_FAULTY), _why(text, wanted, F.col(_FIELDS)[_DOCUMENT], typed))
    value = F.when(~F.col(_FAULTY), typed)
    return step.withColumns({into: value, reason: why}).drop(_RAW, _FAULTY, _FIELDS)


def _struct(schema: str | StructType) -> StructType:
    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(wanted, StructType), "a topic's records are objects"
    return wanted


def _is_faulty(text: Column, raw: Column, wanted: StructType) -> Column:
    """The rule: whether a value is anything else than one JSON object of the schema."""
    typed = raw[_DOCUMENT]
    faulty = (
        text.isNull()
        | ~F.is_valid_utf8(text)
        | raw[_CORRUPT].isNotNull()
        | typed.isNull()
        | ~_is_one(text)
    )
    lacks = _lacks(wanted, typed)
    return faulty if lacks is None else faulty | lacks


def _from_json(text: Column, wanted: DataType) -> Column:
    """Struct of the document and, where it does not fit, of the text as it came."""
    schema = StructType().add(_DOCUMENT, wanted).add(_CORRUPT, StringType())
    return F.from_json(_wrapped(text), schema, _OPTIONS)


def _wrapped(text: Column) -> Column:
    return F.concat(F.lit(f'{{"{_DOCUMENT}":'), text, F.lit("}"))


def _is_one(text: Column) -> Column:
    """Whether nothing follows the first value of the text; of a text that is no JSON, either."""
    count = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    return F.coalesce(count == 1, F.lit(False))


def _lacks(kind: DataType, value: Column) -> Column | None:
    """Whether something within the value is null that must not be; None where all of it may be."""
    match kind:
        case StructType():
            faults = [
                _is_lacking(field.dataType, value[field.name], nullable=field.nullable)
                for field in kind.fields
            ]
            found = [fault for fault in faults if fault is not None]
            if not found:
                return None
            lacking = reduce(or_, found)
        case ArrayType(elementType=inner, containsNull=nullable):
            if _is_lacking(inner, value, nullable=nullable) is None:
                return None
            lacking = F.exists(value, lambda one: _surely(inner, one, nullable=nullable))
        case MapType(valueType=inner, valueContainsNull=nullable):
            if _is_lacking(inner, value, nullable=nullable) is None:
                return None
            values = F.map_values(value)
            lacking = F.exists(values, lambda one: _surely(inner, one, nullable=nullable))
        case _:
            return None
    return F.coalesce(value.isNotNull() & lacking, F.lit(False))


def _is_lacking(kind: DataType, value: Column, *, nullable: bool) -> Column | None:
    within = _lacks(kind, value)
    if nullable:
        return within
    return value.isNull() if within is None else value.isNull() | within


def _surely(kind: DataType, value: Column, *, nullable: bool) -> Column:
    lacking = _is_lacking(kind, value, nullable=nullable)
    assert lacking is not None
    return lacking


def _why(text: Column, wanted: StructType, document: Column, typed: Column) -> Column:
    kind = _kind_of(F.schema_of_variant(document))
    faults = _faults(wanted, document, typed, prefix="")
    return (
        F.when(text.isNull(), F.lit("the value is null"))
        .when(~F.is_valid_utf8(text), F.lit("the value is not UTF-8"))
        .when(F.trim(text) == "", F.lit("the value is empty"))
        .when(document.isNull() | ~_is_one(text), F.lit("the value is not valid JSON"))
        .when(kind != "an object", F.concat(F.lit("the value should be an object, and is "), kind))
        .otherwise(F.coalesce(*faults, F.lit(_UNFIT)))
    )


def _faults(wanted: StructType, found: Column, typed: Column, *, prefix: str) -> Iterator[Column]:
    """The sentence for the first field of a struct that is wrong, then for those of the structs in
    it; null where there is nothing to say.
    """
    names = {field.name: f"{prefix}{_plain(field.name)}" for field in wanted.fields}
    said = [
        {
            "key": field.name,
            "name": names[field.name],
            "wanted": field.dataType.simpleString(),
            "takes": _kinds_taken(field.dataType),
            "must": not field.nullable,
        }
        for field in wanted.fields
    ]
    fields = _fields_of(found)
    fits = F.array(
        *(_fits(field.dataType, fields[field.name], typed[field.name]) for field in wanted.fields)
    )
    looked_at = F.transform(
        F.from_json(F.lit(json.dumps(said)), _SAID),
        lambda one, index: F.struct(
            one.alias("said"),
            F.schema_of_variant(fields[one["key"]]).alias("told"),
            fits[index].alias("fits"),
        ),
    )
    yield F.try_element_at(F.transform(F.filter(looked_at, _is_wrong), _sentence), F.lit(1))
    for field in wanted.fields:
        if isinstance(field.dataType, StructType):
            inner, name = typed[field.name], f"{names[field.name]}."
            yield from _faults(field.dataType, fields[field.name], inner, prefix=name)


def _fields_of(found: Column) -> Column:
    """The fields of an object; of anything else, null."""
    return found.try_cast(_FIELDS_TYPE)


def _fits(kind: DataType, found: Column, typed: Column) -> Column:
    if isinstance(kind, ArrayType | MapType):
        # It may be there although an element is not, or not as it should be.
        alone = _from_json(F.to_json(found), kind)
        lacks = _lacks(kind, typed)
        there = typed.isNotNull() & alone[_CORRUPT].isNull()
        return there if lacks is None else there & ~lacks
    return typed.isNotNull()


def _is_wrong(one: Column) -> Column:
    missing = one["told"].isNull() | (one["told"] == _NULL)
    return F.when(missing, one["said"]["must"]).otherwise(~one["fits"])


def _sentence(one: Column) -> Column:
    said, kind = one["said"], _kind_of(one["told"])
    likely = F.array_contains(said["takes"], kind)
    return (
        F.when(one["told"].isNull(), F.concat(F.lit("field "), said["name"], F.lit(" is missing")))
        .when(one["told"] == _NULL, F.concat(F.lit("field "), said["name"], F.lit(" is null")))
        .otherwise(
            F.concat(
                F.lit("field "),
                said["name"],
                F.lit(" should be "),
                said["wanted"],
                F.lit(", and is "),
                kind,
                F.when(likely, F.lit(" that does not fit")).otherwise(F.lit("")),
            )
        )
    )


def _kinds_taken(wanted: DataType) -> tuple[str, ...]:
    """The kinds of JSON values that may become this type."""
    match wanted:
        case StructType() | MapType():
            return ("an object",)
        case ArrayType():
            return ("an array",)
        case BooleanType():
            return ("a boolean",)
        case DecimalType() | DateType() | TimestampType() | TimestampNTZType():
            return ("a number", "a string")
        case NumericType():
            return ("a number",)
        case _:
            return ("a string",)


def _kind_of(told: Column) -> Column:
    """From Spark's name of a variant's type to a JSON value's."""
    return (
        F.when(told == _NULL, F.lit("null"))
        .when(told == "STRING", F.lit("a string"))
        .when(told == "BOOLEAN", F.lit("a boolean"))
        .when(told.startswith("OBJECT"), F.lit("an object"))
        .when(told.startswith("ARRAY"), F.lit("an array"))
        .otherwise(F.lit("a number"))
    )


def _plain(name: str) -> str:
    """As it is where it is a word, in quotes where it could be mistaken for a path."""
    return name if name.isidentifier() else f"`{name}`"
