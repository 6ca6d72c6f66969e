"""Sessions of clients end (`connections.max.reauth.ms`), and records flow on: clients that know how
log in again on the same connection, and the others are disconnected and come back.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from rig.apache_kafka.agent import KafkaAgent
from rig.clients.confluent import ConfluentClient
from rig.logins import aio_kafka, confluent, kafka_python
from rig.logins.login import PATIENCE_SECONDS, Login
from rig.logins.secured import Credentials, SecuredNode
from rig.logins.sessions import Sessions, watched_sessions

# Clients log in again some tenths of a second before the end. One that is late, on a busy machine,
# is disconnected and comes back, and so does not count.
SESSION_MS = 3000
SESSIONS = 2
SECONDS_MAX = 300
ROUND_RECORDS = 60
ROUND_RECORDS_PER_SECOND = 10
ENDED = "the session has ended, and the client did not log in again"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    folder = tmp_path_factory.mktemp("node")
    one = SecuredNode(folder, credentials, connections_max_reauth_ms=str(SESSION_MS))
    yield one
    one.stop()


@pytest.fixture
def login(credentials: Credentials) -> Login:
    return credentials.by_sasl("SCRAM-SHA-512")


@pytest.fixture
def sessions(node: SecuredNode) -> Iterator[Sessions]:
    with watched_sessions(node.running) as watched:
        yield watched


class Until:
    """Whether to go on: until enough was seen, but not for ever."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + SECONDS_MAX

    def enough(self, seen: int) -> bool:
        assert time.monotonic() < self._deadline, f"seen {seen} times"
        return seen >= SESSIONS


def record_count(node: SecuredNode, topic: str) -> int:
    client = ConfluentClient(node.addresses["PLAINTEXT"])
    try:
        first, end = client.offset_bounds(topic, 0)
        return end - first
    finally:
        client.close()


def test_javas_client_logs_in_again(
    node: SecuredNode, login: Login, sessions: Sessions, kafka_agent: KafkaAgent, tmp_path: Path
) -> None:
    sent, until = 0, Until()
    config = str(login.write(tmp_path / "client.properties"))
    while not until.enough(sessions.renewals):
        run = kafka_agent.run_tool(
            "kafka-producer-perf-test",
            *("--bootstrap-server", node.addresses["SASL_SSL"], "--command-config", config),
            *("--topic", "java", "--record-size", "10", "--num-records", str(ROUND_RECORDS)),
            *("--throughput", str(ROUND_RECORDS_PER_SECOND)),
        )
        sent += ROUND_RECORDS
        assert run.status == 0 and f"{ROUND_RECORDS} records sent" in run.output, run.output
    assert record_count(node, "java") == sent


def test_librdkafka_logs_in_again(node: SecuredNode, login: Login, sessions: Sessions) -> None:
    failures: list[object] = []
    producer = Producer(confluent.settings_of(node.addresses["SASL_SSL"], login))
    until = Until()
    while not until.enough(sessions.renewals):
        producer.produce("rdkafka", b"r", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(PATIENCE_SECONDS) == 0
    assert failures == [None] * record_count(node, "rdkafka")


def test_kafka_python_logs_in_again(node: SecuredNode, login: Login, sessions: Sessions) -> None:
    producer = KafkaProducer(**kafka_python.settings_of(node.addresses["SASL_SSL"], login))
    sent, until = 0, Until()
    while not until.enough(sessions.renewals):
        producer.send("kafka-python", b"record").get(PATIENCE_SECONDS)
        sent += 1
    producer.close()
    assert record_count(node, "kafka-python") == sent


def test_aiokafka_does_not_and_comes_back(
    node: SecuredNode, login: Login, sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    """Its producer and its consumer: nothing is lost, and nothing is read twice."""
    settings = aio_kafka.settings_of(node.addresses["SASL_SSL"], login)

    async def scenario() -> int:
        sent, until = 0, Until()
        reader = AIOKafkaConsumer(
            "aiokafka", **settings, group_id="aiokafka", auto_offset_reset="earliest"
        )
        async with AIOKafkaProducer(**settings) as producer, reader:
            while not until.enough(caplog.text.count(ENDED)):
                await producer.send_and_wait("aiokafka", str(sent).encode())
                assert (await reader.getone()).value == str(sent).encode()
                sent += 1
        return sent

    sent = asyncio.run(asyncio.wait_for(scenario(), 2 * SECONDS_MAX))
    assert record_count(node, "aiokafka") == sent
    assert sessions.renewals == 0
    assert sessions.connection_count > SESSIONS
