"""How fast Spark writes topics: our sink beside Spark's own Kafka connector, in one run.

    python bench/spark_write.py                  100 B and 1 KB into 12 partitions
    python bench/spark_write.py --megabytes 500  more to write, for steadier figures
    python bench/spark_write.py --rounds 5

Each side writes the same rows, which Spark makes on the way, into a topic of its own, in turn, in
one JVM; a first round warms all up and is not counted; the table shows medians. Ours is measured in
both modes; the connector knows only at least once. Its jars come from Maven Central where it can be
reached; without them the table has one side.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

import penstock.spark
from rig.apache_kafka.jars import PeerMissing
from rig.broker import NO_RETENTION_ROUND
from rig.serve import ServedNode
from rig.spark_connector import connector_jars

PARTITIONS = 12
SIDES = {
    "exactly once": ("penstock", {"mode": "exactly_once"}),
    "at least once": ("penstock", {"delivery": "at_least_once"}),
    "official": ("kafka", {}),
}
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200, help="of values in each write")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--sizes", default="100,1000", help="bytes of a value")
    parser.add_argument("--compression", default="none")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-spark-write-") as folder:
        settings = {"transaction.two.phase.commit.enable": "true", **NO_RETENTION_ROUND}
        node = ServedNode(data=Path(folder) / "node", settings=settings)
        node.start()
        try:
            measure(node.bootstrap, chosen, folder)
        finally:
            node.stop()


def measure(bootstrap: str, chosen: argparse.Namespace, folder: str) -> None:
    sides = dict(SIDES)
    settings = {**SETTINGS, "spark.sql.warehouse.dir": folder}
    try:
        settings["spark.jars"] = ",".join(map(str, connector_jars()))
    except PeerMissing as missing:
        print(f"without Spark's own connector: {missing}")
        del sides["official"]
    spark = penstock.spark.session("spark_write", master=chosen.master, **settings)
    print("".join(f"{title:>28}" for title in ("", *sides)) + f"{'ratio':>14}")
    for size in map(int, chosen.sizes.split(",")):
        rows = chosen.megabytes * 10**6 // size
        frame = rows_of(spark, rows, size)
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(chosen.rounds + 1):
            for side, (kind, options) in sides.items():
                topic = f"write-{size}-{number}-{side.replace(' ', '-')}"
                create(bootstrap, topic)
                more = {**options, "topic": topic, "kafka.compression.type": chosen.compression}
                seconds[side].append(write_once(frame, kind, bootstrap, more))
        show(size, rows, {side: statistics.median(seconds[side][1:]) for side in sides})
    spark.stop()


def rows_of(spark: SparkSession, rows: int, size: int) -> DataFrame:
    return spark.range(rows, numPartitions=4).selectExpr(
        "cast(cast(id as string) as binary) as key",
        f"cast(rpad(cast(id as string), {size}, 'penstock') as binary) as value",
    )


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])[topic].result()


def write_once(frame: DataFrame, kind: str, bootstrap: str, options: dict[str, str]) -> float:
    began = time.perf_counter()
    writer = frame.write.format(kind).mode("append")
    writer.option("kafka.bootstrap.servers", bootstrap).options(**options).save()
    return time.perf_counter() - began


def show(size: int, rows: int, seconds: dict[str, float]) -> None:
    figures = [
        f"{rows * size / took / 1e6:.0f} MB/s {rows / took / 1e3:,.0f} k rows/s"
        for took in seconds.values()
    ]
    official = seconds.get("official")
    ratios = [f"{official / took:.2f}" for took in list(seconds.values())[:2]] if official else []
    cells = (f"{size} B, {PARTITIONS} partitions", *figures)
    print("".join(f"{cell:>28}" for cell in cells) + f"{' and '.join(ratios):>14}")


if __name__ == "__main__":
    main()
