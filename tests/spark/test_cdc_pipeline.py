"""A real table, changed twice, to index, cache, warehouse and features: all as the table is."""

from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.spark.pipelines.cdc import job
from penstock.spark.pipelines.cdc.feature_table import features_as_of, rows_as_of
from penstock.spark.pipelines.cdc.generate import feed
from penstock.spark.pipelines.place import Place
from rig.pipeline_input import make_topics
from rig.serve import ServedNode
from rig.shop_table import latest, products, told, told_twice
from rig.sink_output import committed_records, open_transactional_ids

pytestmark = pytest.mark.slow

FEATURES = (
    "id",
    "change_count",
    "price_cents_min",
    "price_cents_max",
    "price_cents_mean",
    "price_cents_last",
    "sold_out_count",
)


def test_everything_downstream_is_as_the_table_is(
    spark: SparkSession, node: ServedNode, folder: Path, postgres: str
) -> None:
    make_topics(node.bootstrap, "cdc")
    place = Place(bootstrap=node.bootstrap, folder=str(folder), postgres=postgres, once=True)
    before: dict[int, dict[str, object]] = {}
    features_before: list[tuple[object, ...]] = []
    ends: dict[int, int] = {}
    for seed in (1, 2):
        feed(postgres, seed, transactions_max=60)
        for query in job.start(spark, place):
            query.awaitTermination()
        if seed == 1:
            before, features_before = products(postgres), stored_features(postgres)
            ends = ends_of(node, job.PRODUCTS)
    rows = products(postgres)
    changes = committed_records(node.bootstrap, job.PRODUCTS)
    assert told(changes) == rows
    assert not told_twice(changes)
    assert latest(committed_records(node.bootstrap, "cdc.cache")) == {
        f"product:{key}": row for key, row in rows.items()
    }
    assert {int(key) for key in latest(committed_records(node.bootstrap, "cdc.search"))} == set(
        rows
    )
    stored = DeltaTable(place.table(job.WAREHOUSE)).to_pyarrow_table().drop_columns(["changed_at"])
    assert {row["id"]: row for row in stored.to_pylist()} == rows
    assert stored.num_rows == len(rows)
    history = DeltaTable(place.table(job.HISTORY)).to_pyarrow_table()
    assert history.num_rows == len(changes)
    counted: dict[int, int] = {}
    for change in changes:
        counted[int(change.key or b"")] = counted.get(int(change.key or b""), 0) + 1
    with psycopg.connect(postgres) as connection:
        features = connection.execute(
            f"SELECT id, change_count, price_cents_last FROM {job.FEATURE_TABLE}"
        ).fetchall()
    assert sorted(features) == [
        (key, counted[key], row["price_cents"]) for key, row in sorted(rows.items())
    ]
    history_table = place.table(job.HISTORY)
    past = features_as_of(spark, history_table, ends).select(*FEATURES).collect()
    assert sorted(map(tuple, past)) == features_before
    rows_then = rows_as_of(spark, history_table, ends).drop("changed_at").collect()
    assert {row["id"]: row.asDict() for row in rows_then} == before
    assert not [one for one in open_transactional_ids(node.bootstrap) if one.startswith("cdc.")]


def stored_features(dsn: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        columns = ", ".join(FEATURES)
        statement = f"SELECT {columns} FROM {job.FEATURE_TABLE} ORDER BY id"
        return connection.execute(statement.encode()).fetchall()


def ends_of(node: ServedNode, topic: str) -> dict[int, int]:
    """The next offset of each partition."""
    found: dict[int, int] = {}
    for record in committed_records(node.bootstrap, topic):
        found[record.partition] = max(found.get(record.partition, 0), record.offset + 1)
    return found
