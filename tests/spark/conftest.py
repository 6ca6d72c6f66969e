"""One Spark session and one node for all tests that need them, each in a process of its own."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock.spark
from rig.clients.confluent import ConfluentClient
from rig.connect_server import ConnectServer
from rig.object_store import ObjectStore
from rig.postgres import Databases
from rig.serve import ServedNode
from rig.small_spark import SMALL_SPARK

TESTS = Path(__file__).resolve().parents[1]
TOPIC_NUMBERS = itertools.count(1)
TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}
NODE_SETTINGS = {"auto.create.topics.enable": "false", **TWO_PHASE}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Its workers know the rig, and its tasks are tried up to three times."""
    known = [str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, known))
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = penstock.spark.session(
        "tests",
        master="local[2,3]",
        **SMALL_SPARK,
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


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[ServedNode]:
    """Of one test: pipelines have their topics by name, and others have lines in them."""
    served = ServedNode(data=tmp_path / "node", settings=TWO_PHASE)
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


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """For programs in processes of their own: this one has a session without it."""
    server = ConnectServer(folder=tmp_path_factory.mktemp("connect"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """A server of PostgreSQL, which decodes its log for whoever asks."""
    found = Databases()
    yield found
    found.close()


@pytest.fixture
def postgres(databases: Databases) -> str:
    """The DSN of an empty database."""
    return databases.fresh()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """It speaks S3. Whoever kills it starts it again."""
    found = ObjectStore(tmp_path_factory.mktemp("store"))
    found.start()
    yield found
    found.kill()
