"""Commits to a Delta table in an object store: one wins, none is lost, dead files go."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import CommitProperties, DeltaTable

from penstock.spark.tables import delta_files, delta_table
from penstock.spark.tables.errors import StoreError
from penstock.spark.tables.store_options import store_options
from rig.object_store import ObjectStore
from rig.table_batches import batch_of, new_rows, upload_to_delta

DRIVERS = 8
IMPATIENT = {"fs.s3a.attempts.maximum": "0"}


@pytest.fixture
def table(object_store: ObjectStore) -> str:
    """It has batch 0."""
    uri = f"s3://{object_store.new_bucket()}/ledger"
    upload_to_delta(uri, object_store.options, 0)
    return uri


def target_of(table: str, store: ObjectStore, **options: str) -> delta_table.Target:
    told = {**store.options, **options}
    return delta_table.Target(uri=table, storage_options=store_options(table, told))


def opened(table: str, store: ObjectStore) -> DeltaTable:
    found = target_of(table, store).opened()
    assert found is not None
    return found


def stored_ids(table: str, store: ObjectStore) -> list[int]:
    return sorted(opened(table, store).to_pyarrow_table()["id"].to_pylist())


def ids_up_to(batch_id: int) -> list[int]:
    return [one for number in range(batch_id + 1) for one in new_rows(number)["id"].to_pylist()]


def uploaded(target: delta_table.Target, batch_id: int) -> delta_files.DataFile:
    rows = new_rows(batch_id)
    file = delta_files.write_file(target, rows.schema, iter(rows.to_batches()))
    assert file is not None
    return file


def test_of_commits_of_one_version_the_store_takes_one(
    object_store: ObjectStore, table: str
) -> None:
    target = target_of(table, object_store)
    files = [uploaded(target, 1) for _ in range(DRIVERS)]

    def commit(file: delta_files.DataFile) -> bool:
        change = delta_table.adding_files([file.addition()])
        return delta_table.commit(target, batch_of(1), change)

    with ThreadPoolExecutor(DRIVERS) as drivers:
        outcomes = list(drivers.map(commit, files))
    assert sorted(outcomes) == [False] * (DRIVERS - 1) + [True]
    assert stored_ids(table, object_store) == ids_up_to(1)


def test_a_store_that_dies_at_a_commit_has_the_batch_after_the_next_try(
    object_store: ObjectStore, table: str
) -> None:
    target = target_of(table, object_store)
    adding = delta_table.adding_files([uploaded(target, 1).addition()])

    def killed(found: DeltaTable, numbers: CommitProperties) -> None:
        object_store.kill()
        adding(found, numbers)

    hasty = target_of(table, object_store, **IMPATIENT)
    try:
        with pytest.raises(
            StoreError, match=r"^s3://lake-\d+/ledger: .*error sending request"
        ) as caught:
            delta_table.commit(hasty, batch_of(1), killed)
    finally:
        object_store.start()
    assert "\n" not in str(caught.value)
    assert delta_table.commit(target, batch_of(1), adding)
    assert not delta_table.commit(target, batch_of(1), adding)
    assert stored_ids(table, object_store) == ids_up_to(1)


def test_files_of_dead_tasks_are_not_read_and_are_vacuumed(
    object_store: ObjectStore, table: str
) -> None:
    dead = uploaded(target_of(table, object_store), 1)
    assert stored_ids(table, object_store) == ids_up_to(0)
    found = opened(table, object_store)
    removed = found.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert removed == [dead.path]
    assert stored_ids(table, object_store) == ids_up_to(0)
