"""The shop as five queries: see `steps` for what each of them does, `topology.toml` for the topics.

orders, payments -- route ------> fulfilment, analytics, notifications, ledger
orders, payments -- order-view -> the latest state of each order
payments ---------- revenue ----> cents per minute and region
inventory --------- stock ------> levels and alerts
stock-levels ------ stock-table > a table in PostgreSQL, where there is one

What is no event goes to the dead letters, by the query that has the good ones: route, and stock.
So does a payment that is too late for revenue, by route.
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
    bounds = place.event_time

    def events(*topics: str) -> DataFrame:
        # Headers say of a replayed letter when it came, and whether it was counted.
        rows = read_topics(spark, place, *topics, includeHeaders="true")
        return steps.checked(rows, *topics, event_time=bounds)

    routed = steps.routed(events(names.ORDERS, names.PAYMENTS))
    orders = steps.order_view(events(names.ORDERS, names.PAYMENTS), event_time=bounds)
    revenue = steps.revenue(events(names.PAYMENTS), event_time=bounds)
    levels_and_alerts = steps.stock(events(names.INVENTORY))
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
