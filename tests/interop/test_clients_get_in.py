"""Each client gets in by each mechanism over TLS and by its certificate, at a node and at clusters
that are secured inside as well; whoever may not is told so in a way that the client understands.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rig.logins.aio_kafka import AioKafkaEntering
from rig.logins.confluent import ConfluentEntering
from rig.logins.java import JavaEntering
from rig.logins.kafka_python import KafkaPythonEntering
from rig.logins.login import Entering, Login
from rig.logins.secured import (
    MECHANISMS,
    Credentials,
    SecuredNode,
    certificate_cluster,
    sasl_cluster,
)

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "java")


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    one = SecuredNode(tmp_path_factory.mktemp("node"), credentials)
    yield one
    one.stop()


@pytest.fixture(scope="module")
def at_sasl_cluster(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[str]:
    with sasl_cluster(tmp_path_factory.mktemp("sasl"), credentials) as cluster:
        cluster.start()
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def at_certificate_cluster(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[str]:
    with certificate_cluster(tmp_path_factory.mktemp("certificates"), credentials) as cluster:
        cluster.start()
        yield cluster.bootstrap


@pytest.fixture(scope="module", params=CLIENTS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Entering]:
    return request.param, entering(request, tmp_path_factory)


def entering(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Entering:
    match request.param:
        case "confluent-kafka":
            return ConfluentEntering()
        case "kafka-python":
            return KafkaPythonEntering()
        case "aiokafka":
            return AioKafkaEntering()
        case _:
            folder = tmp_path_factory.mktemp("java")
            return JavaEntering(request.getfixturevalue("kafka_agent"), folder)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_node_lets_in_by_log_in(
    node: SecuredNode, credentials: Credentials, client: tuple[str, Entering], mechanism: str
) -> None:
    name, enters = client
    login = credentials.by_sasl(mechanism)
    enters.round_trip(node.addresses["SASL_SSL"], login, f"{name}-{mechanism}")


def test_a_node_lets_in_by_certificate(
    node: SecuredNode, credentials: Credentials, client: tuple[str, Entering]
) -> None:
    name, enters = client
    enters.round_trip(node.addresses["SSL"], credentials.by_certificate(), f"{name}-certificate")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_cluster_whose_nodes_log_in_lets_in_by_log_in(
    at_sasl_cluster: str, credentials: Credentials, client: tuple[str, Entering], mechanism: str
) -> None:
    name, enters = client
    enters.round_trip(at_sasl_cluster, credentials.by_sasl(mechanism), f"{name}-{mechanism}")


def test_a_cluster_whose_nodes_have_certificates_lets_in_by_certificate(
    at_certificate_cluster: str, credentials: Credentials, client: tuple[str, Entering]
) -> None:
    name, enters = client
    enters.round_trip(at_certificate_cluster, credentials.by_certificate(), f"{name}-certificate")


def strangers(credentials: Credentials) -> dict[str, tuple[str, Login]]:
    """Who is not let in, and at which listener."""
    by_sasl, certified = credentials.by_sasl, credentials.by_certificate()
    expired = credentials.tokens.token("expired", seconds=-600)
    foreign = credentials.foreign
    return {
        "wrong password, PLAIN": ("SASL_SSL", replace(by_sasl("PLAIN"), password="wrong")),
        "wrong password, SCRAM": ("SASL_SSL", replace(by_sasl("SCRAM-SHA-512"), password="wrong")),
        "unknown user, PLAIN": ("SASL_SSL", replace(by_sasl("PLAIN"), user="eve")),
        "unknown user, SCRAM": ("SASL_SSL", replace(by_sasl("SCRAM-SHA-256"), user="eve")),
        "expired token": ("SASL_SSL", replace(by_sasl("OAUTHBEARER"), token=expired)),
        "mechanism that is off": ("NARROW", by_sasl("SCRAM-SHA-256")),
        "foreign certificate": ("SSL", replace(certified, certificate=foreign.client("mallory"))),
        "no certificate": ("SSL", replace(certified, certificate=None)),
        "node that is not trusted": ("SSL", replace(certified, trusted=foreign.trusted)),
        "plain text": ("SASL_SSL", Login(protocol="PLAINTEXT")),
        "no log-in": ("SASL_SSL", replace(certified, certificate=None)),
    }


# What confluent-kafka, kafka-python, aiokafka and Java say. kafka-python loses a reply that comes
# with the end of its connection, and aiokafka that of OAUTHBEARER: they know only that it ended.
AUTHENTICATION = "_AUTHENTICATION: .*Authentication failed"
SASL_CODE = "KafkaConnectionError: .*SaslAuthenticationFailed: Authentication failed"
UNREACHED = "KafkaTimeoutError: Unable to bootstrap"
CLOSED = "KafkaConnectionError: .*closed"
SASL_EXCEPTION = "SaslAuthenticationException: Authentication failed"
REFUSALS: dict[str, tuple[str, str, str, str]] = {
    "wrong password, PLAIN": (AUTHENTICATION, UNREACHED, SASL_CODE, SASL_EXCEPTION),
    "wrong password, SCRAM": (AUTHENTICATION, UNREACHED, SASL_CODE, SASL_EXCEPTION),
    "unknown user, PLAIN": (AUTHENTICATION, UNREACHED, SASL_CODE, SASL_EXCEPTION),
    "unknown user, SCRAM": (AUTHENTICATION, UNREACHED, SASL_CODE, SASL_EXCEPTION),
    "expired token": (AUTHENTICATION, UNREACHED, CLOSED, "SaslAuthenticationException"),
    "mechanism that is off": (
        "_AUTHENTICATION: .*Unsupported SASL mechanism: .*: PLAIN",
        UNREACHED,
        "UnsupportedSaslMechanismError",
        "UnsupportedSaslMechanismException",
    ),
    "foreign certificate": (
        "_TRANSPORT: .*alert unknown ca",
        "TLSV1_ALERT_UNKNOWN_CA",
        CLOSED,
        "SslAuthenticationException",
    ),
    "no certificate": (
        "_TRANSPORT: .*alert certificate required",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        CLOSED,
        "SslAuthenticationException",
    ),
    "node that is not trusted": (
        "_SSL: .*certificate verify failed",
        "CERTIFICATE_VERIFY_FAILED",
        "CERTIFICATE_VERIFY_FAILED",
        "SslAuthenticationException",
    ),
    "plain text": ("_MSG_TIMED_OUT", UNREACHED, CLOSED, "TimeoutException"),
    "no log-in": ("_MSG_TIMED_OUT", UNREACHED, CLOSED, "TimeoutException"),
}


@pytest.mark.parametrize("who", REFUSALS)
def test_a_stranger_is_refused_in_words_of_its_client(
    node: SecuredNode, credentials: Credentials, client: tuple[str, Entering], who: str
) -> None:
    name, enters = client
    listener, login = strangers(credentials)[who]
    said = enters.refusal(node.addresses[listener], login)
    expected = REFUSALS[who][CLIENTS.index(name)]
    assert re.search(expected, said, re.DOTALL), said
