"""A driver program that carries a topic into a table, batch by batch, and ends: for tables.py.

    python bench/tables_query.py '{"into": "folder", ...}'    the fields of `Carried`

It prints when its query starts, and how long the query took.
"""

import json
import sys
import time
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from penstock.spark import session
from penstock.spark.tables import delta, postgres

APP = "bench"
POSTGRES = "postgres"
PG_TABLE = "carried"
KEYS = ["from_partition", "from_offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    into: str  # a kind of table
    bootstrap: str
    topic: str
    target: str  # where a Delta table is, or the DSN of a database
    checkpoint: str
    rows_at_once: int
    master: str
    spark_folder: str
    storage_options: dict[str, str] = field(default_factory=dict)

    def write(self, rows: DataFrame, batch_id: int) -> None:
        if self.into == POSTGRES:
            postgres.upsert(rows, batch_id, dsn=self.target, table=PG_TABLE, keys=KEYS, app=APP)
        else:
            options = self.storage_options
            delta.write(rows, batch_id, table=self.target, app=APP, storage_options=options)


def main() -> None:
    carried = Carried(**json.loads(sys.argv[1]))
    spark = session(
        "tables",
        master=carried.master,
        **{
            "spark.driver.memory": "1g",
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            "spark.local.dir": carried.spark_folder,
        },
    )
    rows = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", carried.bootstrap)
        .option("subscribe", carried.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(carried.rows_at_once))
        .load()
        .selectExpr("partition AS from_partition", "offset AS from_offset", "value")
    )
    tell("started")
    started = time.monotonic()
    query = (
        rows.writeStream.foreachBatch(carried.write)
        .option("checkpointLocation", carried.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    tell(f"{time.monotonic() - started}")
    spark.stop()


def tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
