"""One Spark session and one node for all tests that need them, each in a process of its own."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock.spark
from rig.broker import NO_RETENTION_ROUND
from rig.clients.confluent import ConfluentClient
from rig.serve import ServedNode

TOPIC_NUMBERS = itertools.count(1)
SESSION_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
NODE_SETTINGS = {
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
    **NO_RETENTION_ROUND,
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = penstock.spark.session(
        "tests",
        master="local[2]",
        **SESSION_SETTINGS,
        **{"spark.sql.warehouse.dir": str(warehouse)},
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """Whoever kills it starts it again; a test that changes more has a node of its own."""
    served = ServedNode(data=tmp_path_factory.mktemp("spark") / "node", settings=NODE_SETTINGS)
    served.start()
    yield served
    assert served.stop() == 0


@pytest.fixture(scope="session")
def confluent(node: ServedNode) -> Iterator[ConfluentClient]:
    """Another client, which knows nothing of ours."""
    one = ConfluentClient(node.bootstrap)
    yield one
    one.close()


@pytest.fixture
def topic(confluent: ConfluentClient) -> Callable[..., str]:
    """Makes a topic with a name of its own: `topic(partitions=3, **{"retention.ms": "1000"})`."""

    def create(*, partitions: int = 1, **settings: str) -> str:
        name = f"spark-{next(TOPIC_NUMBERS)}"
        confluent.create_topic(name, partitions=partitions, settings=settings)
        return name

    return create


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test keeps checkpoints and tables."""
    return tmp_path
