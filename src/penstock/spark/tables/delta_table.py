"""One Delta table: opened or made, asked for what it remembers, and committed to.

Invariants
1. Rows and the numbers that tell of them are one Delta commit, or none.
2. Two commits under one app conflict, whichever queries they are of: Delta refuses the later one,
   which then looks again at what the table remembers.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import Schema
from deltalake.transaction import AddAction

from penstock.spark.tables.batches import Batch, Verdict, Written, judge
from penstock.spark.tables.errors import Contended, OtherApp, StoreError, TableError, WrongColumns
from penstock.spark.tables.store_errors import is_of_store, one_line

OWNER = "penstock.app"  # in the configuration of tables that were made here
APPEND_ONLY = "delta.appendOnly"
ATTEMPTS_MAX = 20  # as often may others commit while a batch is being written

Change = Callable[[DeltaTable, CommitProperties], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    uri: str
    storage_options: dict[str, str] | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path | None:
        """The folder that it is; None: it lies in some object store."""
        parts = urlsplit(self.uri)
        if parts.scheme not in ("", "file"):
            return None
        return Path(unquote(parts.path) if parts.scheme else self.uri).absolute()

    def opened(self) -> DeltaTable | None:
        """The table as it is now; None where there is none."""
        try:
            return DeltaTable(self.uri, storage_options=self.storage_options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise translated(error, f"{self.uri} can't be opened") from error


def open_or_make(
    target: Target,
    schema: Schema,
    *,
    app: str,
    partition_by: Sequence[str] = (),
    append_only: bool = False,
) -> DeltaTable:
    """The table, which the columns fit and which `app` may write to."""
    found = target.opened()
    if found is None:
        properties = {OWNER: app} | ({APPEND_ONLY: "true"} if append_only else {})
        found = _made(target, schema, partition_by=partition_by, properties=properties)
    owner = found.metadata().configuration.get(OWNER, app)
    if owner != app:
        raise OtherApp(f"{target.uri} belongs to app {owner!r}; {app!r} does not write to it")
    check_columns(schema, found.schema(), table=target.uri)
    return found


def is_written(found: DeltaTable, batch: Batch) -> bool:
    """Whether the batch is in the table; raises where it can't be written any more."""
    return judge(batch, _written(found, batch), table=found.table_uri) is Verdict.SKIP


def commit(target: Target, batch: Batch, change: Change) -> bool:
    """Makes the change together with the batch's numbers; False: the batch was there already."""
    said = ""
    for _ in range(ATTEMPTS_MAX):
        found = target.opened()
        if found is None:
            raise TableError(f"{target.uri} was removed while batch {batch.batch_id} was written")
        if is_written(found, batch):
            return False
        numbers = CommitProperties(app_transactions=_numbers(found, batch))
        try:
            change(found, numbers)
        except CommitFailedError as error:
            said = one_line(error)
            continue  # somebody else committed; what that means, only the table knows
        except (DeltaError, OSError) as error:
            # Whether the commit was done is known to the table alone: the batch is to come again.
            raise translated(error, target.uri) from error
        return True
    raise Contended(
        f"{target.uri}: batch {batch.batch_id} conflicted with other writers {ATTEMPTS_MAX} times; "
        f"nothing of it is written ({said})"
    )


def adding_files(additions: Sequence[AddAction]) -> Change:
    def change(found: DeltaTable, numbers: CommitProperties) -> None:
        found.create_write_transaction(
            list(additions), "append", found.schema(), commit_properties=numbers
        )

    return change


def adding_rows(rows: pyarrow.Table) -> Change:
    def change(found: DeltaTable, numbers: CommitProperties) -> None:
        write_deltalake(found, rows, mode="append", commit_properties=numbers)

    return change


def merging_rows(rows: pyarrow.Table, *, keys: Sequence[str], deleted: str | None) -> Change:
    """The caller has seen to it that every key is there, and once."""
    stored = [name for name in rows.column_names if name != deleted]
    same_key = " AND ".join(f"old.{quoted(key)} = new.{quoted(key)}" for key in keys)
    values = {quoted(name): f"new.{quoted(name)}" for name in stored}
    gone = None if deleted is None else f"new.{quoted(deleted)}"
    kept = None if gone is None else f"NOT coalesce({gone}, false)"

    def change(found: DeltaTable, numbers: CommitProperties) -> None:
        if found.metadata().configuration.get(APPEND_ONLY) == "true":
            raise TableError(f"{found.table_uri} is append-only (delta.appendOnly)")
        merge = found.merge(
            rows, same_key, source_alias="new", target_alias="old", commit_properties=numbers
        )
        if gone is not None:
            merge = merge.when_matched_delete(gone)
        merge = merge.when_matched_update(values)
        merge.when_not_matched_insert(values, predicate=kept).execute()

    return change


def schema_of(spark_schema: dict[str, object], *, without: str | None = None) -> Schema:
    """The columns of a Spark schema, as its `jsonValue()` tells them: Delta has the same form."""
    loose = _loose(spark_schema)
    assert isinstance(loose, dict)
    loose["fields"] = [one for one in loose["fields"] if one["name"] != without]
    try:
        return Schema.from_json(json.dumps(loose))
    except (DeltaError, ValueError) as error:
        raise WrongColumns(f"no Delta table can hold the batch: {one_line(error)}") from error


def check_columns(schema: Schema, existing: Schema, *, table: str) -> None:
    """Every column of the batch is in the table with its type; the table may have more of them,
    which stay empty.
    """
    there, coming = _types(existing), _types(schema)
    lacking = [name for name in coming if name not in there]
    if lacking:
        raise WrongColumns(f"{table} has no column {', '.join(map(repr, lacking))}")
    for name, kind in coming.items():
        if kind != there[name]:
            raise WrongColumns(
                f"{table}: column {name!r} is {_spelled(there[name])} there and "
                f"{_spelled(kind)} in the batch"
            )
    needed = [one.name for one in existing.fields if not one.nullable and one.name not in coming]
    if needed:
        raise WrongColumns(
            f"the batch has no column {', '.join(map(repr, needed))}, which {table} needs"
        )


def arrow_schema(existing: Schema, names: Sequence[str]) -> pyarrow.Schema:
    """How the columns are stored, in Arrow's words; times are UTC."""
    whole = pyarrow.schema(existing.to_arrow())
    return pyarrow.schema([whole.field(name) for name in names])


def translated(error: Exception, where: str) -> TableError:
    """What `deltalake` says, in the words of this package."""
    kind = StoreError if is_of_store(error) else TableError
    return kind(f"{where}: {one_line(error)}")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _made(
    target: Target, schema: Schema, *, partition_by: Sequence[str], properties: dict[str, str]
) -> DeltaTable:
    try:
        return DeltaTable.create(
            target.uri,
            schema,
            mode="ignore",
            partition_by=list(partition_by) or None,
            configuration=properties,
            storage_options=target.storage_options,
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError, ValueError) as error:
        # Somebody else may have made it in the meantime.
        found = target.opened()
        if found is None:
            raise translated(error, f"{target.uri} can't be created") from error
        return found


def _written(found: DeltaTable, batch: Batch) -> Written:
    current = found.transaction_version(batch.app)
    own = found.transaction_version(_number_name(batch))
    if own is None:
        return Written(last_batch_id=None, taken_over=False)
    assert current is not None
    assert own <= current
    return Written(
        last_batch_id=found.transaction_version(_query_name(batch)), taken_over=own < current
    )


def _numbers(found: DeltaTable, batch: Batch) -> list[Transaction]:
    current = found.transaction_version(batch.app) or 0
    own = found.transaction_version(_number_name(batch)) or current + 1
    return [
        Transaction(app_id=batch.app, version=own),
        Transaction(app_id=_number_name(batch), version=own),
        Transaction(app_id=_query_name(batch), version=batch.batch_id),
    ]


def _query_name(batch: Batch) -> str:
    return f"{batch.app}/{batch.query}"


def _number_name(batch: Batch) -> str:
    return f"{batch.app}/{batch.query}/number"


def _types(schema: Schema) -> dict[str, object]:
    loose = _loose(json.loads(schema.to_json()))
    assert isinstance(loose, dict)
    return {one["name"]: one["type"] for one in loose["fields"]}


def _spelled(kind: object) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


def _loose(part: object) -> object:
    """A schema without what does not matter here: comments, and where nulls may not be."""
    match part:
        case dict():
            empty = {"metadata": {}, "nullable": True, "containsNull": True}
            empty["valueContainsNull"] = True
            return {name: empty.get(name, _loose(inner)) for name, inner in part.items()}
        case list():
            return [_loose(inner) for inner in part]
        case _:
            return part
