"""What is compared in one JVM: our format, the same of another checkout, Spark's own Kafka
connector, and the floors; and our sink with other sizes of chunks.

Spark gives each function that is written in Python the environment that the session had when the
function was registered, and starts workers for each environment. So our class is registered twice:
once as it is, and once with the path of the other checkout. Its name stands for the class of that
path in the processes that plan and in the workers; what runs in the program, which is the listeners
alone, is this checkout's and does not know the other's queries.
"""

import os
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceWriter
from pyspark.sql.types import StructType
from spark_floors import Floor

import penstock
import penstock.spark
from penstock.model.limit import KIB
from penstock.spark.data_source import PenstockDataSource
from penstock.spark.sink.batch import BatchSink
from rig.apache_kafka.jars import PeerMissing
from rig.small_spark import SHORT_LIVED_JAVA
from rig.spark_connector import connector_jars

OURS, BEFORE, CONNECTOR, FLOOR = "penstock", "penstock_before", "kafka", "floor"
BENCH = Path(__file__).resolve().parent
PATH = "PYTHONPATH"
SETTINGS = {
    "spark.driver.memory": "2g",
    # Threads that end would take what they had used with them.
    "spark.driver.extraJavaOptions": "-XX:-UseDynamicNumberOfCompilerThreads",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "5",  # they are looked at again and again
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def spark_with_sides(
    *, master: str, before: Path | None, folder: Path, quick: bool, chunk_kib: Sequence[int] = ()
) -> Iterator[tuple[SparkSession, frozenset[str]]]:
    """A session, and the formats that it has; a quick one is no good for figures."""
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    if quick:
        settings["spark.driver.extraJavaOptions"] = SHORT_LIVED_JAVA
    formats = {OURS, FLOOR}
    try:
        settings["spark.jars"] = ",".join(map(str, connector_jars()))
        formats.add(CONNECTOR)
    except PeerMissing as missing:
        print(f"without Spark's own connector: {missing}")
    known = os.environ.get(PATH)
    os.environ[PATH] = os.pathsep.join(filter(None, (known, str(BENCH))))
    spark = penstock.spark.session("bench", master=master, settings=settings)
    try:
        spark.dataSource.register(Floor)
        if before is not None:
            register_before(spark, before.resolve())
            formats.add(BEFORE)
        for kib in chunk_kib:
            spark.dataSource.register(of_chunks(kib, spark.sparkContext.defaultParallelism))
            formats.add(with_chunks(kib))
        yield spark, frozenset(formats)
    finally:
        spark.stop()


def register_before(spark: SparkSession, source: Path) -> None:
    if not (source / "penstock" / "spark").is_dir():
        raise SystemExit(f"{source} is not the src folder of a checkout")
    environment = spark.sparkContext.environment
    was = environment.get(PATH)
    environment[PATH] = str(source)
    try:
        spark.dataSource.register(of_before(str(source), spark.sparkContext.defaultParallelism))
    finally:
        if was is None:
            del environment[PATH]
        else:
            environment[PATH] = was


def of_before(source: str, cores_known: int) -> type[DataSource]:
    class Before(PenstockDataSource):
        cores = cores_known

        @classmethod
        def name(cls) -> str:
            return BEFORE

        def __init__(self, options: MutableMapping[str, str]) -> None:
            # Else the same code would be compared with itself.
            assert penstock.__file__.startswith(source), f"{penstock.__file__} is not in {source}"
            super().__init__(options)

    return Before


def with_chunks(kib: int) -> str:
    """The name of our format whose sink encodes so much at once."""
    return f"{OURS}_{kib}_kib"


def of_chunks(kib: int, cores_known: int) -> type[DataSource]:
    own_name = with_chunks(kib)  # workers are given what it is, and can't import this module

    class WithChunks(PenstockDataSource):
        cores = cores_known

        @classmethod
        def name(cls) -> str:
            return own_name

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            sink = super().writer(schema, overwrite)
            assert isinstance(sink, BatchSink)
            sink.options = replace(sink.options, chunk_bytes=kib * KIB)
            return sink

    return WithChunks
