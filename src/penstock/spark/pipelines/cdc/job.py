"""Three queries on the changes of one table, and the capture that feeds them.

The serving query and the capture are transactions of the cluster; the warehouse and the features
remember the batches that they have. So every change is counted once, wherever one of them dies.
"""

import psycopg
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.config_file import connection_options
from penstock.spark.pipelines.cdc import steps
from penstock.spark.pipelines.cdc.capture import capture, capture_beside
from penstock.spark.pipelines.cdc.source import Source
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_batches, write_topics
from penstock.spark.tables import delta, postgres

INTEGER, LONG = PrimitiveType("integer"), PrimitiveType("long")
PRODUCTS = "cdc.products"
POSITIONS = "cdc.positions"
EVENTS = "cdc.events"
SERVING = "cdc.serving"
WAREHOUSE = "cdc.warehouse"
HISTORY = "cdc.history"
FEATURES = "cdc.features"
FEATURE_TABLE = "product_features"
MAKE_FEATURES = f"""
    CREATE TABLE IF NOT EXISTS {FEATURE_TABLE} (
        id bigint PRIMARY KEY,
        change_count bigint NOT NULL,
        price_cents_min bigint,
        price_cents_max bigint,
        price_cents_mean bigint,
        price_cents_last bigint,
        sold_out_count bigint NOT NULL,
        changed_at timestamptz NOT NULL
    )
"""


def start(spark: SparkSession, place: Place) -> list[StreamingQuery]:
    dsn = place.database()
    source = source_of(dsn)
    settings = dict(connection_options(place.brokers).kafka)
    if place.once:
        capture(source, place.bootstrap, settings=settings)
    with psycopg.connect(dsn) as connection:
        connection.execute(MAKE_FEATURES)
    add_offsets(place.table(HISTORY))
    changed = steps.changes(read_topics(spark, place, PRODUCTS, includeHeaders="true"))
    queries = [
        write_topics(steps.serving(changed), place, query=SERVING),
        write_warehouse(changed, place),
        write_features(steps.features(changed), place),
    ]
    if not place.once:
        capture_beside(
            source,
            place.bootstrap,
            settings=settings,
            goes_on=lambda: all(query.isActive for query in queries),
            ended=lambda: stop(queries),
        )
    return queries


def stop(queries: list[StreamingQuery]) -> None:
    """Queries that nobody feeds any more would look as if nothing changed."""
    for query in queries:
        query.stop()


def source_of(dsn: str) -> Source:
    return Source(
        dsn=dsn,
        name="penstock_cdc",
        topics={"public.products": PRODUCTS},
        positions=POSITIONS,
        events=EVENTS,
    )


def add_offsets(history: str) -> None:
    """A history that was begun before changes had offsets there gets the columns."""
    if not DeltaTable.is_deltatable(history):
        return
    table = DeltaTable(history)
    there = {field.name for field in table.schema().fields}
    if "offset" not in there:
        table.alter.add_columns([Field("partition", INTEGER), Field("offset", LONG)])


def write_warehouse(changed: DataFrame, place: Place) -> StreamingQuery:
    """The products as they are, and beside them all that they ever were."""

    def into(batch: DataFrame, batch_id: int) -> None:
        batch = batch.persist()
        history = steps.history(batch)
        delta.write(history, batch_id, table=place.table(HISTORY), app=HISTORY, append_only=True)
        delta.write(
            steps.rows(batch),
            batch_id,
            table=place.table(WAREHOUSE),
            app=WAREHOUSE,
            mode="upsert",
            keys=["id"],
            deleted="deleted",
        )
        batch.unpersist()

    return write_batches(changed, place, query=WAREHOUSE, into=into)


def write_features(features: DataFrame, place: Place) -> StreamingQuery:
    """Running figures: each batch brings those of the products that have changed."""

    def into(batch: DataFrame, batch_id: int) -> None:
        postgres.upsert(
            batch,
            batch_id,
            dsn=place.database(),
            table=FEATURE_TABLE,
            keys=["id"],
            app=FEATURES,
            deleted="deleted",
        )

    return write_batches(features, place, query=FEATURES, into=into, output_mode="update")
