"""Without two-phase commit, as on Apache Kafka, rows count once over the same kills, within the
time-out of transactions.

One driver program has the queries of this file: workers die in some, the others come to the point
where they are struck and stop there. Then the program is killed, and the node too; what comes next
finds both anew. bench/spark_soak.py has the long form.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rig.apache_kafka.broker import ApacheKafka
from rig.spark_driving import SparkDriver
from rig.spark_query import carry, start
from rig.spark_strikes import StruckDataSource, Where
from rig.struck_queries import Struck, struck

# A program with six queries takes its time where others are at work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WORKERS = (Where.WORKER_WRITING, Where.WORKER_PREPARED)
DRIVERS = (
    Where.BEFORE_DECISION,
    Where.AFTER_DECISION,
    Where.BETWEEN_COMMITS,
    Where.AFTER_ALL,
)
# Apache Kafka takes longer to start than others that are waited for.
PATIENT = {"kafka.default.api.timeout.ms": "120000"}
WARNING = "prepared transactions have a time-out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallen:
    """What is left of a driver program, and what it had to say."""

    queries: dict[Where, Struck]
    log: str


@pytest.fixture(scope="module")
def mortal_kafka(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafka]:
    peer = ApacheKafka(
        jars=kafka_jars,
        folder=tmp_path_factory.mktemp("mortal"),
        settings={"auto.create.topics.enable": "false"},
    )
    peer.start()
    yield peer
    peer.stop()


@pytest.fixture(scope="module")
def fallen(mortal_kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Fallen:
    folder = tmp_path_factory.mktemp("fallen")
    queries = {
        where: struck(mortal_kafka.bootstrap, folder, where.value, where, options={})
        for where in (*WORKERS, *DRIVERS)
    }
    driver = SparkDriver(log=folder / "driver.log")
    try:
        for where in WORKERS:
            driver.carry(queries[where].carrying)
        for where in DRIVERS:
            query = driver.start(queries[where].carrying)
            driver.await_strike(query, queries[where].strike)
    finally:
        driver.kill()
    mortal_kafka.kill()
    mortal_kafka.start()
    return Fallen(queries=queries, log=driver.logged())


@pytest.mark.parametrize("where", WORKERS)
def test_rows_of_a_worker_that_is_killed_are_there_once(fallen: Fallen, where: Where) -> None:
    query = fallen.queries[where]
    assert query.strike.was_reached
    assert not query.faults


@pytest.mark.parametrize("where", DRIVERS)
def test_rows_of_a_driver_that_is_killed_with_the_node_are_there_once(
    spark: SparkSession, fallen: Fallen, where: Where
) -> None:
    query = fallen.queries[where]
    carry(spark, query.unharmed)
    assert not query.faults


def test_rows_are_there_once_when_the_node_was_killed_between_decision_and_commit(
    spark: SparkSession, mortal_kafka: ApacheKafka, folder: Path
) -> None:
    spark.dataSource.register(StruckDataSource)
    query = struck(
        mortal_kafka.bootstrap, folder, "node-killed", Where.AFTER_DECISION, options=PATIENT
    )
    running = start(spark, query.carrying)
    query.strike.await_reached()
    mortal_kafka.kill()
    mortal_kafka.start()
    query.strike.release()
    running.awaitTermination()
    assert not query.faults


def test_time_out_of_transactions_is_told_once_a_run(fallen: Fallen) -> None:
    for where in WORKERS:
        told = [line for line in fallen.log.splitlines() if WARNING in line]
        assert len([line for line in told if f"sink={where.value}:" in line]) == 1, told
