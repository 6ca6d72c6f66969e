"""Delta tables in an object store that speaks S3: written by tasks, and killed in mid-upload."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.tables import delta, delta_table
from penstock.spark.tables.errors import StoreError
from penstock.spark.tables.store_options import store_options
from rig.noisy_rows import row_ids, rows_with_a_stop
from rig.object_store import SECRET_KEY, ObjectStore

QUERY = "b34d1a7e"
UPLOAD_SECONDS_MAX = 120
IMPATIENT = {"fs.s3a.attempts.maximum": "0"}


@pytest.fixture
def table(object_store: ObjectStore) -> str:
    return f"s3://{object_store.new_bucket()}/orders"


def target_of(table: str, store: ObjectStore) -> delta_table.Target:
    return delta_table.Target(uri=table, storage_options=store_options(table, store.options))


def opened(table: str, store: ObjectStore) -> DeltaTable:
    found = target_of(table, store).opened()
    assert found is not None
    return found


def stored_ids(table: str, store: ObjectStore) -> list[int]:
    found = opened(table, store).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def writing(table: str, store: ObjectStore, **options: str) -> Callable[[DataFrame, int], bool]:
    return partial(
        delta.write,
        table=table,
        app="orders",
        query=QUERY,
        storage_options={**store.options, **options},
    )


def await_parts(store: ObjectStore, table: str) -> None:
    """Until the store holds a part of an upload that goes on."""
    bucket = table.split("/")[2]
    deadline = time.monotonic() + UPLOAD_SECONDS_MAX
    while not any(store.unfinished_uploads(bucket).values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_tasks_write_the_files_and_a_repeated_batch_is_skipped(
    spark: SparkSession, object_store: ObjectStore, table: str
) -> None:
    write = writing(table, object_store)
    rows = spark.range(0, 9, numPartitions=3)
    assert write(rows, 0)
    assert not write(rows, 0)
    assert write(spark.range(9, 12, numPartitions=1), 1)
    assert stored_ids(table, object_store) == list(range(12))
    assert len(opened(table, object_store).file_uris()) == 3 + 1


def test_a_batch_whose_store_is_killed_in_mid_upload_is_there_once_after_another_try(
    spark: SparkSession, object_store: ObjectStore, table: str, folder: Path
) -> None:
    go_on = folder / "go-on"
    assert writing(table, object_store)(
        spark.createDataFrame([(-1, b"")], "id long, noise binary"), 0
    )
    rows = rows_with_a_stop(spark, go_on)
    with ThreadPoolExecutor(1) as pool:
        failing = pool.submit(writing(table, object_store, **IMPATIENT), rows, 1)
        await_parts(object_store, table)
        object_store.kill()
        go_on.touch()
        with pytest.raises(PySparkException) as caught:
            failing.result()
    assert SECRET_KEY not in str(caught.value)
    object_store.start()
    assert stored_ids(table, object_store) == [-1]
    assert writing(table, object_store)(rows, 1)
    assert not writing(table, object_store)(rows, 1)
    assert stored_ids(table, object_store) == [-1, *row_ids()]
    # What the dead upload left is in the store still, and in no list of files.
    await_parts(object_store, table)
    assert len(opened(table, object_store).file_uris()) == 2


def test_an_upload_goes_on_when_its_store_is_back_soon(
    spark: SparkSession, object_store: ObjectStore, table: str, folder: Path
) -> None:
    go_on = folder / "go-on"
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(writing(table, object_store), rows_with_a_stop(spark, go_on), 0)
        await_parts(object_store, table)
        object_store.kill()
        go_on.touch()
        object_store.start()
        assert result.result()
    assert stored_ids(table, object_store) == row_ids()


def test_what_a_store_refuses_is_one_line_without_secrets(
    spark: SparkSession, object_store: ObjectStore, table: str
) -> None:
    def refused(uri: str, match: str, **options: str) -> None:
        with pytest.raises(StoreError, match=match) as caught:
            writing(uri, object_store, **options)(spark.range(1), 0)
        assert SECRET_KEY not in str(caught.value)
        assert "\n" not in str(caught.value)

    refused("s3://nobody-has-this/orders", "NoSuchBucket: The specified bucket does not exist")
    wrong = {"fs.s3a.secret.key": SECRET_KEY.upper()}
    refused(table, r"^s3://lake-\d+/orders can't be opened: SignatureDoesNotMatch: ", **wrong)
    nowhere = {"fs.s3a.endpoint": "http://127.0.0.1:1", **IMPATIENT}
    refused(table, r"Connection refused", **nowhere)
    assert SECRET_KEY not in repr(target_of(table, object_store))
