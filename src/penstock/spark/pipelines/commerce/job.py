"""The shop as five queries: see `steps` for what each of them does, `topology.toml` for the topics.

orders, payments -- route ------> fulfilment, analytics, notifications, ledger
orders, payments -- order-view -> the latest state of each order
payments ---------- revenue ----> cents per minute and region
inventory --------- stock ------> levels and alerts
stock-levels ------ stock-table > a table in PostgreSQL, where there is one

What is no event goes to the dead letters, by the query that has the good ones: route, and stock.
"""

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines.commerce import names, steps
from penstock.spark.pipelines.commerce.stock_table import make_table
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_batches, write_topics
from penstock.spark.tables import postgres

ROUTE = "commerce.route"
ORDER_VIEW = "commerce.order-view"
REVENUE = "commerce.revenue"
STOCK = "commerce.stock"
STOCK_TABLE = "commerce.stock-table"


def start(spark: SparkSession, place: Place) -> list[StreamingQuery]:
    def events(*topics: str, **options: str) -> DataFrame:
        rows = read_topics(spark, place, *topics, **options)
        return steps.checked(rows, *topics, event_time=place.event_time)

    routed = steps.routed(events(names.ORDERS, names.PAYMENTS, includeHeaders="true"))
    orders = steps.order_view(events(names.ORDERS, names.PAYMENTS), event_time=place.event_time)
    revenue = steps.revenue(events(names.PAYMENTS))
    levels_and_alerts = steps.stock(events(names.INVENTORY, includeHeaders="true"))
    stock = write_topics(levels_and_alerts, place, query=STOCK)
    queries = [
        stock,
        write_topics(routed, place, query=ROUTE),
        write_topics(orders, place, query=ORDER_VIEW, output_mode="update"),
        write_topics(revenue, place, query=REVENUE, output_mode="update"),
    ]
    if place.postgres is None:
        return queries
    if place.once:
        # The table follows a topic that the stock query has to have filled before.
        stock.awaitTermination()
    make_table(place.postgres)
    levels = read_topics(spark, place, names.STOCK_LEVELS)
    into = partial(_into_table, place.postgres)
    return [*queries, write_batches(levels, place, query=STOCK_TABLE, into=into)]


def _into_table(dsn: str, levels: DataFrame, batch_id: int) -> None:
    rows = steps.stock_rows(levels)
    postgres.upsert(rows, batch_id, dsn=dsn, table=names.STOCK_TABLE, keys=["sku"], app=STOCK_TABLE)
