"""Whoever writes a batch is killed at every line in turn; after the next try it is there, once."""

from pathlib import Path

import psycopg
import psycopg.transaction
from deltalake import DeltaTable

from penstock.spark.tables import delta_table, postgres_table
from rig import table_batches
from rig.killed_lines import Killer
from rig.table_batches import left_after, new_rows


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
