"""JSON with a declared schema: a column of bytes to typed values, and why a row is none.

    orders = schemas.parse_json(rows, "id string NOT NULL, amount bigint NOT NULL, note string")

adds two columns: `parsed`, a struct of the schema, and `reason`, one sentence that names what is
wrong. One of them is always null. The sentences hold no values, so that they can be counted.

What the schema says is meant: a field that is NOT NULL must be there, a number in quotes is none,
and what is neither UTF-8 nor one JSON object is refused. As everywhere in Spark, a string takes any
JSON value as its text, fields that the schema does not name are passed over, and of two fields of
one name the last one counts.

Spark's own PERMISSIVE mode tells that a row is bad and not why, so a bad row is looked at again, as
a variant and field by field; a good row is parsed once. It is all done by Spark's own functions,
without a Python worker.
"""

from collections.abc import Iterator

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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

PARSED = "parsed"
REASON = "reason"

# The document is parsed as the field of another one: whatever follows it is then noticed.
_DOCUMENT = "document"
_CORRUPT = "_corrupt"
# Columns on the way.
_FAULTY = "_penstock_faulty"
_VARIANT = "_penstock_variant"
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
}


def parse_json(
    frame: DataFrame,
    schema: str | StructType,
    *,
    column: str = "value",
    into: str = PARSED,
    reason: str = REASON,
) -> DataFrame:
    """The frame with two columns more: the typed struct, null for a bad row, and the reason, null
    for a good one. `schema` is Spark's, or as in SQL: `id string NOT NULL, amount bigint`.

    A null, as a deleted key has it, is no JSON: leave such rows out before, or let them be refused.
    """
    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(wanted, StructType), "a topic's records are objects"
    text = F.col(column).cast("string")
    step = frame.withColumn(into, _from_json(text, wanted))
    typed = F.col(into)[_DOCUMENT]
    faulty = (
        text.isNull()
        | ~F.is_valid_utf8(text)
        | F.col(into)[_CORRUPT].isNotNull()
        | typed.isNull()
        | _lacks(wanted, typed)
    )
    # Only a bad row becomes a variant: what is asked of the null of a good one costs nothing.
    variant = F.when(faulty, F.try_parse_json(_wrapped(text)))
    step = step.withColumns({_FAULTY: faulty, _VARIANT: variant})
    why = F.when(F.col(_FAULTY), _why(text, wanted, F.col(_VARIANT), typed))
    value = F.when(~F.col(_FAULTY), typed)
    return step.withColumns({reason: why, into: value}).drop(_FAULTY, _VARIANT)


def _from_json(text: Column, wanted: DataType) -> Column:
    """Struct of the document and, where it does not fit, of the text as it came."""
    schema = StructType().add(_DOCUMENT, wanted).add(_CORRUPT, StringType())
    return F.from_json(_wrapped(text), schema, _OPTIONS)


def _wrapped(text: Column) -> Column:
    return F.concat(F.lit(f'{{"{_DOCUMENT}":'), text, F.lit("}"))


def _lacks(kind: DataType, value: Column) -> Column:
    """Whether something within the value is null that must not be; of a null value, nothing is."""
    match kind:
        case StructType():
            faults = [_lacks_field(field, value[field.name]) for field in kind.fields]
        case ArrayType():
            faults = [_any_lacks(kind.elementType, value, nullable=kind.containsNull)]
        case MapType():
            values = F.map_values(value)
            faults = [_any_lacks(kind.valueType, values, nullable=kind.valueContainsNull)]
        case _:
            faults = []
    found = F.lit(False)
    for fault in faults:
        found = found | fault
    return value.isNotNull() & F.coalesce(found, F.lit(False))


def _lacks_field(field: StructField, value: Column) -> Column:
    within = _lacks(field.dataType, value)
    return within if field.nullable else value.isNull() | within


def _any_lacks(kind: DataType, values: Column, *, nullable: bool) -> Column:
    def lacks(one: Column) -> Column:
        return _lacks(kind, one) if nullable else one.isNull() | _lacks(kind, one)

    return F.exists(values, lacks)


def _why(text: Column, wanted: StructType, document: Column, typed: Column) -> Column:
    root = _at(document, f"$.{_DOCUMENT}")
    kind = _kind_of(root)
    faults = _faults(wanted, document, typed, path=f"$.{_DOCUMENT}", name="")
    return (
        F.when(text.isNull(), F.lit("the value is null"))
        .when(~F.is_valid_utf8(text), F.lit("the value is not UTF-8"))
        .when(F.trim(text) == "", F.lit("the value is empty"))
        .when(document.isNull(), F.lit("the value is not valid JSON"))
        .when(kind != "an object", F.concat(F.lit("the value should be an object, and is "), kind))
        .otherwise(F.coalesce(*faults, F.lit("the value does not fit the schema")))
    )


def _faults(
    wanted: StructType, document: Column, typed: Column, *, path: str, name: str
) -> Iterator[Column]:
    """For each field a sentence, or null where there is nothing to say."""
    for field in wanted.fields:
        place = f"{path}[{_quoted(field.name)}]"
        full_name = f"{name}{_plain(field.name)}"
        yield _fault(field, document, typed[field.name], path=place, name=full_name)


def _fault(field: StructField, document: Column, typed: Column, *, path: str, name: str) -> Column:
    wanted, found = field.dataType, _at(document, path)
    kind = _kind_of(found)
    misfit = _misfit(wanted, kind, name)
    fault = F.when(typed.isNull(), misfit)
    if isinstance(wanted, StructType):
        within = _faults(wanted, document, typed, path=path, name=f"{name}.")
        fault = F.when(kind == "an object", F.coalesce(*within, F.lit(None))).otherwise(fault)
    elif isinstance(wanted, ArrayType | MapType):
        # It may be there although an element is not, or not as it should be.
        alone = _from_json(F.to_json(found), wanted)
        hollow = F.lit(f"in field {name} something is null or missing")
        fault = F.coalesce(
            fault,
            F.when(alone[_CORRUPT].isNotNull(), misfit),
            F.when(_lacks(wanted, typed), hollow),
        )
    if field.nullable:
        return F.when(kind != "null", fault)
    return (
        F.when(found.isNull(), F.lit(f"field {name} is missing"))
        .when(kind == "null", F.lit(f"field {name} is null"))
        .otherwise(fault)
    )


def _misfit(wanted: DataType, kind: Column, name: str) -> Column:
    likely = kind.isin(*_kinds_taken(wanted))
    return F.concat(
        F.lit(f"field {name} should be {wanted.simpleString()}, and is "),
        kind,
        F.when(likely, F.lit(" that does not fit")).otherwise(F.lit("")),
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


def _kind_of(found: Column) -> Column:
    """Null where there is nothing; `null` is a kind as well."""
    told = F.schema_of_variant(found)
    return (
        F.when(told == "VOID", F.lit("null"))
        .when(told == "STRING", F.lit("a string"))
        .when(told == "BOOLEAN", F.lit("a boolean"))
        .when(told.startswith("OBJECT"), F.lit("an object"))
        .when(told.startswith("ARRAY"), F.lit("an array"))
        .when(told.isNotNull(), F.lit("a number"))
    )


def _at(document: Column, path: str) -> Column:
    return F.try_variant_get(document, path, "variant")


def _quoted(name: str) -> str:
    quote = '"' if "'" in name else "'"
    if quote in name:
        raise ValueError(f"a field's name can't hold both kinds of quotes: {name}")
    return f"{quote}{name}{quote}"


def _plain(name: str) -> str:
    """As it is where it is a word, in quotes where it could be mistaken for a path."""
    return name if name.isidentifier() else f"`{name}`"
