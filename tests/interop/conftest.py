"""One broker and every client that is asked to work with it.

The broker is Penstock, served by a process of its own. With PENSTOCK_INTEROP_PEER=1 it is Apache
Kafka: a scenario that fails there is wrong about Kafka, and not a promise of ours.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.broker import ApacheKafka
from rig.broker import Broker
from rig.clients.aio_kafka import AioKafkaClient
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import KafkaClient
from rig.clients.java import JavaClient
from rig.clients.kafka_python import KafkaPythonClient
from rig.members.java_member import java_member
from rig.serve import ServedNode
from rig.transactional.aio_kafka import AioKafkaTransactions
from rig.transactional.confluent import ConfluentTransactions
from rig.transactional.interface import TransactionalClient
from rig.transactional.java import JavaTransactions
from rig.transactional.kafka_python import KafkaPythonTransactions

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "java")
TOPIC_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        yield request.getfixturevalue("apache_kafka")
        return
    node = ServedNode(
        data=tmp_path_factory.mktemp("interop") / "node",
        settings={"auto.create.topics.enable": "false"},
    )
    node.start()
    yield node
    assert node.stop() == 0


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture(scope="session")
def group_bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker whose groups are brisk: a test does not wait for sessions of many seconds."""
    settings = {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
    }
    folder = tmp_path_factory.mktemp("groups")
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        jars = request.getfixturevalue("kafka_jars")
        peer = ApacheKafka(jars=jars, folder=folder, settings=settings)
        peer.start()
        yield peer.bootstrap
        peer.stop()
        return
    node = ServedNode(data=folder / "node", settings=settings)
    node.start()
    yield node.bootstrap
    assert node.stop() == 0


@pytest.fixture(scope="session")
def java_command(
    kafka_jars: Path, group_bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """How to start a member of a group that uses the Java client."""
    folder = tmp_path_factory.mktemp("java-member")
    return java_member(jars=kafka_jars, folder=folder, bootstrap=group_bootstrap)


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[KafkaClient]:
    one = connect(request.param, bootstrap, request)
    yield one
    one.close()


@pytest.fixture(scope="session", params=CLIENTS)
def transactions(request: pytest.FixtureRequest) -> TransactionalClient:
    """Producers, readers and members of each client library, for what is done in transactions."""
    match request.param:
        case "confluent-kafka":
            return ConfluentTransactions()
        case "kafka-python":
            return KafkaPythonTransactions()
        case "aiokafka":
            return AioKafkaTransactions()
        case _:
            return JavaTransactions(request.getfixturevalue("kafka_agent"))


@pytest.fixture(scope="session")
def java(kafka_agent: KafkaAgent, bootstrap: str) -> JavaClient:
    return JavaClient(agent=kafka_agent, bootstrap=bootstrap)


@pytest.fixture(scope="session")
def confluent(bootstrap: str) -> Iterator[ConfluentClient]:
    one = ConfluentClient(bootstrap)
    yield one
    one.close()


@pytest.fixture
def topic(confluent: ConfluentClient) -> Callable[..., str]:
    """Makes a topic with a name of its own: `topic(partitions=3, **{"retention.ms": "1000"})`."""

    def create(*, partitions: int = 1, **settings: str) -> str:
        name = f"interop-{next(TOPIC_NUMBERS)}"
        confluent.create_topic(name, partitions=partitions, settings=settings)
        return name

    return create


def connect(name: str, bootstrap: str, request: pytest.FixtureRequest) -> KafkaClient:
    match name:
        case "confluent-kafka":
            return ConfluentClient(bootstrap)
        case "kafka-python":
            return KafkaPythonClient(bootstrap)
        case "aiokafka":
            return AioKafkaClient(bootstrap)
        case _:
            return request.getfixturevalue("java")
