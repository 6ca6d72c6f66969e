"""What tests of several packages share: Apache Kafka itself, where Java and Maven exist."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.broker import ApacheKafka
from rig.apache_kafka.jars import PeerMissing, fetched_jars


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    try:
        return fetched_jars()
    except PeerMissing as missing:
        pytest.skip(f"needs Apache Kafka: {missing}")


@pytest.fixture(scope="session")
def kafka_agent(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaAgent]:
    """The Java client, its AdminClient and Kafka's tools (`run_tool`), in one JVM."""
    agent = KafkaAgent(jars=kafka_jars, folder=tmp_path_factory.mktemp("agent"))
    yield agent
    agent.stop()


@pytest.fixture(scope="session")
def apache_kafka(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafka]:
    """A real broker of Apache Kafka, for scenarios that run on both."""
    settings = {"auto.create.topics.enable": "false"}
    peer = ApacheKafka(jars=kafka_jars, folder=tmp_path_factory.mktemp("peer"), settings=settings)
    peer.start()
    yield peer
    peer.stop()
