"""Whoever writes a batch is killed at every line in turn; after the next try it is there, once."""

from pathlib import Path

import psycopg
import psycopg.transaction
import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSelector

from penstock.spark.tables import delta_files, delta_table, postgres_table
from penstock.spark.tables.store_options import store_options
from rig import table_batches
from rig.killed_lines import Killer
from rig.object_store import ObjectStore
from rig.table_batches import left_after, new_rows

pytestmark = pytest.mark.slow


def test_rows_appended_to_delta_are_there_once(folder: Path) -> None:
    uri = str(folder / "ledger")
    wanted: list[int] = []
    with Killer(table_batches.append_to_delta, delta_table) as killer:
        for line in killer.lines():
            survived = killer.survives(line, uri, line)
            table_batches.append_to_delta(uri, line)
            wanted += new_rows(line)["id"].to_pylist()
            found = DeltaTable(uri).to_pyarrow_table()["id"].to_pylist()
            assert sorted(found) == wanted, f"killed at line {line}"
            if survived:
                break
    assert line > 30


def test_rows_uploaded_to_an_object_store_are_there_once(object_store: ObjectStore) -> None:
    uri = f"s3://{object_store.new_bucket()}/ledger"
    options = store_options(uri, object_store.options)
    wanted: list[int] = []
    with Killer(table_batches.upload_to_delta, delta_files, delta_table) as killer:
        for line in killer.lines():
            survived = killer.survives(line, uri, object_store.options, line)
            table_batches.upload_to_delta(uri, object_store.options, line)
            wanted += new_rows(line)["id"].to_pylist()
            found = DeltaTable(uri, storage_options=options).to_pyarrow_table()
            assert sorted(found["id"].to_pylist()) == wanted, f"killed at line {line}"
            if survived:
                break
    files = delta_files.file_system(delta_table.Target(uri=uri, storage_options=options))
    uploaded = [one for one in files.get_file_info(FileSelector("")) if one.is_file]
    assert len(uploaded) > line  # the files of the killed are there, and no commit names them
    assert line > 30


def test_rows_merged_into_delta_are_merged_once(folder: Path) -> None:
    uri = str(folder / "ledger")
    table_batches.merge_into_delta(uri, 0)
    with Killer(table_batches.merge_into_delta, delta_table) as killer:
        for line in killer.lines():
            survived = killer.survives(line, uri, line)
            table_batches.merge_into_delta(uri, line)
            found = DeltaTable(uri).to_pyarrow_table()
            pairs = zip(found["id"].to_pylist(), found["batch"].to_pylist(), strict=True)
            assert sorted(pairs) == left_after(line), f"killed at line {line}"
            if survived:
                break
    merges = [entry for entry in DeltaTable(uri).history() if entry["operation"] == "MERGE"]
    assert len(merges) == line + 1
    assert line > 30


def test_rows_of_postgres_are_changed_once(postgres: str) -> None:
    table_batches.make_ledger(postgres)
    table_batches.merge_into_postgres(postgres, 0)
    with Killer(table_batches.merge_into_postgres, postgres_table, psycopg.transaction) as killer:
        for line in killer.lines():
            survived = killer.survives(line, postgres, line)
            table_batches.merge_into_postgres(postgres, line)
            if survived:
                break
    with psycopg.connect(postgres) as connection:
        rows = connection.execute("SELECT id, batch FROM ledger ORDER BY id").fetchall()
        written = connection.execute(
            "SELECT batch FROM changes WHERE what = 'WRITE' ORDER BY batch"
        ).fetchall()
    assert rows == left_after(line)
    assert [batch for (batch,) in written] == list(range(line + 1))
    assert line > 30
