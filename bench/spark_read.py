"""How fast Spark reads topics: our source beside Spark's own Kafka connector, in one run.

    python bench/spark_read.py                  100 B and 1 KB, 12 partitions, little data in 200
                                                partitions, local[1] and local[2]
    python bench/spark_read.py --megabytes 500  more to read, for steadier figures
    python bench/spark_read.py --rounds 5

Each side reads every column of the whole topic into nowhere (format noop), in turn, in one JVM; a
first round warms both up and is not counted; the table shows medians. The connector's jars come
from Maven Central where it can be reached; without them the table has one side.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import penstock.spark
from rig.apache_kafka.jars import PeerMissing
from rig.broker import NO_RETENTION_ROUND
from rig.serve import ServedNode
from rig.spark_connector import connector_jars

OURS, OFFICIAL = "penstock", "kafka"
PARTITIONS = 12
MANY_PARTITIONS, LITTLE_RECORDS = 200, 50  # so many partitions, with so many records each


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One topic read in one way."""

    name: str
    topic: str
    record_bytes: int
    records: int
    options: dict[str, str]  # of both sides
    our_options: dict[str, str]
    little: bool = False  # so little that the time of a query says more than a rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200, help="of values in each topic")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--masters", default="local[1],local[2]")
    parser.add_argument("--sizes", default="100,1000", help="bytes of a value")
    parser.add_argument("--compression", default="none")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        measure(json.loads(chosen.child))
        return
    sizes = [int(size) for size in chosen.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="penstock-spark-read-") as folder:
        node = ServedNode(data=Path(folder) / "node", settings=NO_RETENTION_ROUND)
        node.start()
        try:
            cases = filled(node.bootstrap, sizes, chosen.megabytes, chosen.compression)
            print(f"{'case':<28}{'master':<10}{'ours':>28}{'official':>28}{'ratio':>8}")
            for master in chosen.masters.split(","):
                told = {
                    "bootstrap": node.bootstrap,
                    "master": master,
                    "rounds": chosen.rounds,
                    "cases": [asdict(case) for case in cases],
                    "warehouse": folder,
                }
                subprocess.run([sys.executable, __file__, "--child", json.dumps(told)], check=True)
        finally:
            node.stop()


def filled(bootstrap: str, sizes: list[int], megabytes: int, compression: str) -> list[Case]:
    cases = []
    for size in sizes:
        records = megabytes * 10**6 // size
        wide, single = f"read-{size}", f"read-{size}-single"
        fill(bootstrap, wide, PARTITIONS, size, records, compression)
        cases.append(
            Case(
                name=f"{size} B, {PARTITIONS} partitions",
                topic=wide,
                record_bytes=size,
                records=records,
                options={},
                our_options={},
            )
        )
        if size == min(sizes):
            cases += little_data(bootstrap, size, compression)
        if size == max(sizes):
            fill(bootstrap, single, 1, size, records, compression)
            for parts in (1, 2, 4):
                cases.append(
                    Case(
                        name=f"{size} B, 1 partition, {parts} tasks",
                        topic=single,
                        record_bytes=size,
                        records=records,
                        options={"minPartitions": str(parts)},
                        our_options={},
                    )
                )
    return cases


def little_data(bootstrap: str, size: int, compression: str) -> list[Case]:
    """Many partitions: in few tasks, which is our default, and in one task for each."""
    topic, records = f"read-{size}-many", MANY_PARTITIONS * LITTLE_RECORDS
    fill(bootstrap, topic, MANY_PARTITIONS, size, records, compression)
    each = {"maxPartitions": str(MANY_PARTITIONS)}
    return [
        Case(
            name=f"{MANY_PARTITIONS} partitions{tasks}",
            topic=topic,
            record_bytes=size,
            records=records,
            options={},
            our_options=ours,
            little=True,
        )
        for tasks, ours in (("", {}), (", a task each", each))
    ]


def fill(
    bootstrap: str, topic: str, partitions: int, size: int, records: int, compression: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=partitions)])[topic].result()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 65536,
            "compression.type": compression,
            "queue.buffering.max.messages": 200_000,
        }
    )
    values = [bytes((at * step) % 256 for at in range(size)) for step in range(1, 64)]
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % 63], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0


def measure(told: dict[str, object]) -> None:
    bootstrap, master, rounds = told["bootstrap"], told["master"], told["rounds"]
    assert isinstance(bootstrap, str) and isinstance(master, str) and isinstance(rounds, int)
    settings = {
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(told["warehouse"]),
        "spark.ui.showConsoleProgress": "false",
    }
    formats = [OURS]
    try:
        settings["spark.jars"] = ",".join(map(str, connector_jars()))
        formats.append(OFFICIAL)
    except PeerMissing as missing:
        print(f"without Spark's own connector: {missing}")
    spark = penstock.spark.session("spark_read", master=master, **settings)
    cases = told["cases"]
    assert isinstance(cases, list)
    for raw in cases:
        case = Case(**raw)
        seconds: dict[str, list[float]] = {one: [] for one in formats}
        for _ in range(rounds + 1):
            for one in formats:
                seconds[one].append(read_once(spark, one, bootstrap, case))
        show(case, master, {one: statistics.median(seconds[one][1:]) for one in formats})
    spark.stop()


def read_once(spark: SparkSession, kind: str, bootstrap: str, case: Case) -> float:
    frame = (
        spark.read.format(kind)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", case.topic)
        .options(**case.options, **(case.our_options if kind == OURS else {}))
        .load()
    )
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def show(case: Case, master: str, seconds: dict[str, float]) -> None:
    def figures(kind: str) -> str:
        if kind not in seconds:
            return "-"
        if case.little:
            return f"{seconds[kind] * 1000:,.0f} ms"
        rows = case.records / seconds[kind]
        return f"{rows * case.record_bytes / 1e6:.0f} MB/s {rows / 1e3:,.0f} k rows/s"

    ratio = f"{seconds[OFFICIAL] / seconds[OURS]:.2f}" if OFFICIAL in seconds else "-"
    print(f"{case.name:<28}{master:<10}{figures(OURS):>28}{figures(OFFICIAL):>28}{ratio:>8}")


if __name__ == "__main__":
    main()
