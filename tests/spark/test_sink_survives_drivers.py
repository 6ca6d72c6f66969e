"""A driver may be killed anywhere, or wake up when another has taken its place: rows count once.

One driver program has all the queries of this file. Each comes to the point where it is struck and
stops there; then the program is put to sleep, woken, and killed in the end. Whoever takes its place
comes so late that an ordinary transaction would have been aborted by its time-out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from rig.numbered_rows import open_transactions
from rig.serve import ServedNode
from rig.spark_driving import DriverError, SparkDriver
from rig.spark_query import Carrying, carry
from rig.spark_strikes import Where
from rig.struck_queries import Struck, struck
from rig.transactional.confluent import ConfluentTransactions
from rig.transactional.interface import await_that

# A program with five queries takes its time where others are at work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ORDINARY_MS = 1_000
NODE_SETTINGS = {
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
}
KILLED = (
    Where.BEFORE_DECISION,
    Where.AFTER_DECISION,
    Where.BETWEEN_COMMITS,
    Where.AFTER_ALL,
)
ZOMBIE, BY_BATCHES = "zombie", "by-batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallen:
    """What is left of a driver program."""

    queries: dict[str, Struck]
    woken_zombie: str  # what its query ended with


@pytest.fixture(scope="module")
def node_of_drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    served = ServedNode(data=tmp_path_factory.mktemp("drivers") / "node", settings=NODE_SETTINGS)
    served.start()
    yield served
    assert served.stop() == 0


@pytest.fixture(scope="module")
def fallen(
    spark: SparkSession, node_of_drivers: ServedNode, tmp_path_factory: pytest.TempPathFactory
) -> Fallen:
    folder = tmp_path_factory.mktemp("fallen")
    bootstrap = node_of_drivers.bootstrap
    points = {where.value: where for where in KILLED}
    points |= {BY_BATCHES: Where.BETWEEN_COMMITS, ZOMBIE: Where.BEFORE_DECISION}
    options = {"kafka.transaction.timeout.ms": str(ORDINARY_MS)}
    queries = {
        name: struck(bootstrap, folder, name, where, by_batches=name == BY_BATCHES, options=options)
        for name, where in points.items()
    }
    driver = SparkDriver(log=folder / "driver.log")
    try:
        started = {}
        for name, query in queries.items():
            # One after the other: Spark gives a Python process ten seconds to start.
            started[name] = driver.start(query.carrying)
            driver.await_strike(started[name], query.strike)
        driver.stall()
        carry(spark, queries[ZOMBIE].unharmed)
        driver.resume()
        queries[ZOMBIE].strike.release()
        with pytest.raises(DriverError) as woken:
            driver.ended(started[ZOMBIE])
    finally:
        driver.kill()
    let_ordinary_transaction_time_out(queries[ZOMBIE].carrying)
    return Fallen(queries=queries, woken_zombie=str(woken.value))


@pytest.mark.parametrize("name", [*KILLED, BY_BATCHES])
def test_rows_of_a_driver_that_is_killed_are_there_once_also_after_the_ordinary_time_out(
    spark: SparkSession, fallen: Fallen, name: str
) -> None:
    query = fallen.queries[name]
    carry(spark, query.unharmed)
    assert not query.faults


def test_a_driver_that_wakes_up_when_another_has_claimed_writes_nothing(fallen: Fallen) -> None:
    assert "Superseded" in fallen.woken_zombie
    assert not fallen.queries[ZOMBIE].faults


def let_ordinary_transaction_time_out(carrying: Carrying) -> None:
    """One with the same time-out, and begun after all of the queries', is aborted."""
    writer = ConfluentTransactions().producer(
        carrying.bootstrap, "ordinary", timeout_ms=ORDINARY_MS
    )
    writer.begin()
    writer.send(carrying.sink, b"not to be seen", partition=0)
    assert "ordinary" in open_transactions(carrying.bootstrap)
    await_that(
        lambda: "ordinary" not in open_transactions(carrying.bootstrap), "a time-out of the node"
    )
    writer.close()
