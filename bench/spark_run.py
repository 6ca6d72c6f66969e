"""What the programs that measure Spark's reading and writing share: a node, a session, options."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from compare import machine
from process_cpu import Processes
from pyspark.sql import SparkSession
from spark_rounds import Case, keep, measured, show
from spark_sides import spark_with_sides

from rig.broker import NO_RETENTION_ROUND
from rig.serve import ServedNode

NODE_SETTINGS = {
    **NO_RETENTION_ROUND,
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "500",
    "transaction.two.phase.commit.enable": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the cases are measured, and what they are told."""

    spark: SparkSession
    formats: frozenset[str]
    bootstrap: str
    sizes: list[int]  # of values, in bytes
    megabytes: int
    compression: str
    more: bool
    only: str
    arrow_rows: list[int]  # in a batch of Arrow that a sink is handed; empty: as Spark has it
    chunk_kib: list[int]  # encoded at once by our sink; empty: as it has it

    def wants(self, name: str) -> bool:
        """Whether a case of this name is measured: else nothing is prepared for it."""
        return self.only in name


Cases = Callable[[Place], Iterator[Case]]


def run(usage: str, cases: Cases) -> None:
    chosen = parsed(usage)
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as folder:
        node = ServedNode(data=Path(folder) / "node", settings=NODE_SETTINGS)
        node.start()
        try:
            measure(chosen, cases, node, Path(folder))
        finally:
            node.stop()


def measure(chosen: argparse.Namespace, cases: Cases, node: ServedNode, folder: Path) -> None:
    with spark_with_sides(
        master=chosen.master,
        before=chosen.before,
        folder=folder,
        quick=chosen.quick,
        chunk_kib=numbers(chosen.chunk_kib),
    ) as (spark, formats):
        place = Place(
            spark=spark,
            formats=formats,
            bootstrap=node.bootstrap,
            sizes=numbers(chosen.sizes),
            megabytes=chosen.megabytes,
            compression=chosen.compression,
            more=chosen.more,
            only=chosen.only,
            arrow_rows=numbers(chosen.arrow_rows),
            chunk_kib=numbers(chosen.chunk_kib),
        )
        jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        processes = Processes(jvm=jvm, node=node.pid)
        results = []
        for case in cases(place):
            results.append(measured(case, chosen.rounds, processes))
            keep(results[-1], chosen.output)
    title = f"{chosen.megabytes} MB, {chosen.master}, rounds: {chosen.rounds}; {machine()}"
    show(results, title=title)


def parsed(usage: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=300, help="of values in each run")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--sizes", default="100,1000", help="bytes of a value")
    parser.add_argument("--compression", default="none")
    parser.add_argument(
        "--arrow-rows", default="", help="write with so many rows in a batch of Arrow: 2000,10000"
    )
    parser.add_argument(
        "--chunk-kib", default="", help="write with so much encoded at once: 1024,4096,16384"
    )
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--more", action="store_true", help="also cases of lesser interest")
    parser.add_argument("--before", type=Path, help="the src folder of another, built checkout")
    parser.add_argument("--output", type=Path, help="every run is added here as a line of JSON")
    parser.add_argument(
        "--quick", action="store_true", help="one round of 1 MB, to see that it works"
    )
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.megabytes = 1, 1
    return chosen


def numbers(told: str) -> list[int]:
    return [int(one) for one in told.split(",") if one]
