"""A real node with listeners of TLS, and the clients that people use."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

import penstock.client
from penstock.broker.network.server import Server
from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.cluster import Cluster
from penstock.client.network.secured_network import secured_network
from penstock.model.settings.setting import InvalidSetting, UnknownSetting
from penstock.node.build import OpenNode
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.tcp import TcpNetwork
from rig.node_cluster import node_cluster
from rig.running_node import RunningNode
from rig.sasl import USERS, plain_users
from rig.tls_files import TlsFiles

WAIT_S = 60
SSL = {"listeners": "SSL://127.0.0.1:0"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("authority"))


@contextlib.contextmanager
def running(data: Path, settings: Mapping[str, str]) -> Iterator[RunningNode]:
    node = RunningNode(data, {"auto.create.topics.enable": "true", **settings})
    node.start()
    try:
        yield node
    finally:
        node.stop()


@pytest.fixture(scope="module")
def mutual(files: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node whose clients must show certificates."""
    settings = {**SSL, **files.node_settings(clients="required")}
    with running(tmp_path_factory.mktemp("node"), settings) as node:
        yield node


def librdkafka(files: TlsFiles, bootstrap: str, client: str | None = None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(files.trusted),
        "log_level": 0,
    }
    if client is not None:
        files.client(client)
        settings["ssl.certificate.location"] = str(files.folder / f"{client}.crt")
        settings["ssl.key.location"] = str(files.folder / f"{client}.key")
    return settings


def kafka_python(files: TlsFiles, bootstrap: str, client: str | None = None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(files.trusted),
    }
    if client is not None:
        files.client(client)
        settings["ssl_certfile"] = str(files.folder / f"{client}.crt")
        settings["ssl_keyfile"] = str(files.folder / f"{client}.key")
    return settings


def round_trip(settings: dict[str, Any], topic: str) -> None:
    """Small and large records there and back, by confluent-kafka."""
    producer = Producer({**settings, "linger.ms": 0})
    sent = [b"small", b"x" * 900_000, b"last"]
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    received = []
    while len(received) < len(sent):
        message = consumer.poll(WAIT_S)
        assert message is not None and message.error() is None
        received.append(message.value())
    consumer.close()
    assert received == sent


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_confluent_kafka_produces_and_consumes(
    files: TlsFiles, tmp_path: Path, version: str
) -> None:
    settings = {**SSL, **files.node_settings(), "ssl.enabled.protocols": version}
    with running(tmp_path, settings) as node:
        round_trip(librdkafka(files, node.bootstrap), "t")


def test_confluent_kafka_shows_its_certificate(files: TlsFiles, mutual: RunningNode) -> None:
    round_trip(librdkafka(files, mutual.bootstrap, "alice"), "of-confluent")


def test_kafka_python_shows_its_certificate(files: TlsFiles, mutual: RunningNode) -> None:
    settings = kafka_python(files, mutual.bootstrap, "bob")
    producer = KafkaProducer(**settings)
    producer.send("of-kafka-python", b"hello").get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        "of-kafka-python",
        **settings,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    assert next(iter(consumer)).value == b"hello"
    consumer.close()


def principals(node: RunningNode) -> list[str]:
    inside = node.node._running
    assert isinstance(inside, OpenNode)
    assert inside.broker is not None
    server: Server = inside.broker.server
    return [str(connection.identity.principal) for connection in server.connections]


async def principals_of_client(node: RunningNode, options: Mapping[str, str]) -> list[str]:
    """While a client of ours that has these options is connected."""
    settings = {"bootstrap.servers": node.bootstrap, **options}
    async with penstock.client.connect(settings) as cluster:
        await Admin(cluster).describe_cluster()  # nobody is answered before a log-in
        return principals(node)


@pytest.mark.parametrize(
    ("rules", "user"),
    [("DEFAULT", "User:CN=Carol"), (r"RULE:^CN=(.*?)$/$1/L", "User:carol")],
)
def test_the_user_of_a_connection_is_the_one_that_its_certificate_names(
    files: TlsFiles, tmp_path: Path, rules: str, user: str
) -> None:
    settings = files.node_settings(clients="required")
    mapped = {**SSL, **settings, "ssl.principal.mapping.rules": rules}
    options = {"security.protocol": "SSL", **files.client_settings("Carol")}
    with running(tmp_path, mapped) as node:
        assert asyncio.run(principals_of_client(node, options)) == [user]


def test_the_user_of_a_connection_with_both_is_the_one_who_logs_in(
    files: TlsFiles, tmp_path: Path
) -> None:
    settings = {
        **files.node_settings(clients="required"),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(),
    }
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
        **files.client_settings("Carol"),
    }
    with running(tmp_path, settings) as node:
        assert asyncio.run(principals_of_client(node, options)) == ["User:alice"]


def failure(settings: dict[str, Any]) -> KafkaError:
    """What a client reports that does not get in."""
    seen: list[KafkaError] = []
    told = threading.Event()

    def note(error: KafkaError) -> None:
        seen.append(error)
        told.set()

    admin = AdminClient({**settings, "error_cb": note})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(WAIT_S)
    assert told.wait(WAIT_S)
    return seen[0]


def test_confluent_kafka_is_told_that_its_certificate_is_missing_or_foreign(
    files: TlsFiles, mutual: RunningNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = failure(librdkafka(files, mutual.bootstrap))
    assert "alert certificate required" in missing.str()
    settings = librdkafka(TlsFiles(tmp_path / "foreign"), mutual.bootstrap, "mallory")
    foreign = failure({**settings, "ssl.ca.location": str(files.trusted)})
    assert "alert unknown ca" in foreign.str()
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert "reason=TLS handshake failed: peer did not return a certificate" in told
    assert "reason=TLS handshake failed: certificate verify failed" in told


def test_a_name_that_no_rule_matches_is_refused(
    files: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        **SSL,
        **files.node_settings(clients="required"),
        "ssl.principal.mapping.rules": "RULE:^CN=admin$/admin/",
    }
    with running(tmp_path, settings) as node:
        failure(librdkafka(files, node.bootstrap, "stranger"))
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert "no rule of ssl.principal.mapping.rules matches CN=stranger" in told


def test_plain_text_on_a_listener_of_tls_is_refused_with_one_line(
    mutual: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = mutual.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), WAIT_S) as plain:
        plain.sendall(bytes.fromhex("0000001400120003000000010004746573740000000000"))
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
    told = [record.getMessage() for record in caplog.records if "plain text" in record.getMessage()]
    assert len(told) == 1
    assert "listener=SSL reason=plain text on a listener of TLS" in told[0]


def test_connections_that_do_not_shake_hands_count_as_connections(
    files: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**SSL, **files.node_settings(), "max.connections": "5"}
    with running(tmp_path, settings) as node, contextlib.ExitStack() as silent:
        host, _, port = node.bootstrap.rpartition(":")
        for _ in range(5):
            one = socket.create_connection((host, int(port)), WAIT_S)
            silent.enter_context(one)
        with socket.create_connection((host, int(port)), WAIT_S) as refused:
            assert refused.recv(1) == b""
    assert any("max.connections=5" in record.getMessage() for record in caplog.records)


def test_a_listener_has_its_own_settings_beside_one_in_plain_text(
    files: TlsFiles, tmp_path: Path
) -> None:
    own = {f"listener.name.outside.{name}": value for name, value in files.node_settings().items()}
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL",
        **own,
    }
    with running(tmp_path, settings) as node:
        addresses = node.node.addresses_by_listener
        round_trip(librdkafka(files, str(addresses["OUTSIDE"])), "t")
        admin = AdminClient({"bootstrap.servers": str(addresses["PLAINTEXT"])})
        assert "t" in admin.list_topics(timeout=WAIT_S).topics


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ssl.keystore.location": "/nowhere"}, "/nowhere"),
        ({"ssl.principal.mapping.rules": "RULE:"}, "Each rule must be DEFAULT"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2, TLSv1.3"),
        ({"ssl.client.auth": "maybe"}, "none, requested, required"),
    ],
)
def test_a_node_that_could_not_serve_does_not_start(
    files: TlsFiles, tmp_path: Path, changed: dict[str, str], said: str
) -> None:
    with (
        pytest.raises(InvalidSetting, match=said),
        running(tmp_path / "data", {**SSL, **files.node_settings(), **changed}),
    ):
        pass
    assert not (tmp_path / "data").exists()


def test_a_misspelt_setting_of_a_client_is_refused() -> None:
    with pytest.raises(UnknownSetting, match=r"ssl\.truststore\.location"):
        secured_network(
            {"security.protocol": "SSL", "ssl.truststor.location": "x"}, TcpNetwork(), RealDisk()
        )


def test_nodes_of_a_cluster_reach_each_other_over_mutual_tls(
    files: TlsFiles, tmp_path: Path
) -> None:
    settings = {
        **files.node_settings(clients="required"),
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
    }
    options = {"security.protocol": "SSL", **files.client_settings("dave")}

    async def scenario() -> int:
        async with node_cluster(tmp_path, 3, changed=settings) as nodes:
            network = secured_network(options, TcpNetwork(), RealDisk())
            async with Cluster(network, RealClock(), [nodes.address(2)]) as cluster:
                topic = NewTopic(name="replicated", partitions=1, replicas=3)
                first_refusal((await Admin(cluster).create_topics([topic])).values())
            # Acks of all come when the followers have fetched.
            clients = librdkafka(files, nodes.bootstrap, "erin")
            await asyncio.to_thread(round_trip, clients, "replicated")
            return len(nodes.running)

    assert asyncio.run(scenario()) == 3
