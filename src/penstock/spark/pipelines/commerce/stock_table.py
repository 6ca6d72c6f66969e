"""The table of stock levels in PostgreSQL."""

import psycopg

from penstock.spark.pipelines.commerce.names import STOCK_TABLE

TABLE = f"""
    CREATE TABLE IF NOT EXISTS {STOCK_TABLE} (
        sku text PRIMARY KEY,
        level bigint NOT NULL,
        version bigint NOT NULL
    )
"""


def make_table(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLE)
