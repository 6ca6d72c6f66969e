"""Each client gets in by each mechanism over TLS, by its certificate and by both together, at a
node and at clusters that are secured inside as well; whoever may not is told so in a way that the
client understands.
"""

import re
import time
from collections.abc import Callable, Iterator

import pytest

from rig.logins.aio_kafka import AioKafkaEntering
from rig.logins.confluent import ConfluentEntering
from rig.logins.java import JavaEntering
from rig.logins.kafka_python import KafkaPythonEntering
from rig.logins.login import Entering
from rig.logins.secured import (
    MECHANISMS,
    Credentials,
    SecuredNode,
    certificate_cluster,
    sasl_cluster,
)
from rig.logins.strangers import strangers

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


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_node_that_asks_for_both_lets_in_by_certificate_and_log_in(
    node: SecuredNode, credentials: Credentials, client: tuple[str, Entering], mechanism: str
) -> None:
    name, enters = client
    login = credentials.by_both(mechanism)
    enters.round_trip(node.addresses["BOTH"], login, f"{name}-{mechanism}-both")


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


# What confluent-kafka, kafka-python, aiokafka and Java say. kafka-python loses a reply that comes
# with the end of its connection, and aiokafka that of OAUTHBEARER: they know only that it ended.
AUTHENTICATION = "_AUTHENTICATION: .*Authentication failed"
SASL_CODE = "KafkaConnectionError: .*SaslAuthenticationFailed: Authentication failed"
UNREACHED = "KafkaTimeoutError: Unable to bootstrap"
CLOSED = "KafkaConnectionError: .*closed"
SASL_EXCEPTION = "SaslAuthenticationException: Authentication failed"
WRONG_PASSWORD = (AUTHENTICATION, UNREACHED, SASL_CODE, SASL_EXCEPTION)
FOREIGN_CERTIFICATE = (
    "_TRANSPORT: .*alert unknown ca",
    "TLSV1_ALERT_UNKNOWN_CA",
    CLOSED,
    "SslAuthenticationException",
)
NO_CERTIFICATE = (
    "_TRANSPORT: .*alert certificate required",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    CLOSED,
    "SslAuthenticationException",
)
REFUSALS: dict[str, tuple[str, str, str, str]] = {
    "wrong password, PLAIN": WRONG_PASSWORD,
    "wrong password, SCRAM": WRONG_PASSWORD,
    "unknown user, PLAIN": WRONG_PASSWORD,
    "unknown user, SCRAM": WRONG_PASSWORD,
    "expired token": (AUTHENTICATION, UNREACHED, CLOSED, "SaslAuthenticationException"),
    "wrong audience": (AUTHENTICATION, UNREACHED, CLOSED, "SaslAuthenticationException"),
    "unknown mechanism": (
        "_AUTHENTICATION: .*Unsupported SASL mechanism",
        UNREACHED,
        "ValueError: .* are supported",
        "TimeoutException",
    ),
    "mechanism that is off": (
        "_AUTHENTICATION: .*Unsupported SASL mechanism: .*: PLAIN",
        UNREACHED,
        "UnsupportedSaslMechanismError",
        "UnsupportedSaslMechanismException",
    ),
    "foreign certificate": FOREIGN_CERTIFICATE,
    "expired certificate": (
        "_TRANSPORT: .*alert certificate expired",
        "ALERT_CERTIFICATE_EXPIRED",
        CLOSED,
        "SslAuthenticationException",
    ),
    "no certificate": NO_CERTIFICATE,
    "node that is not trusted": (
        # Which of them depends on whether the handshake ends with the first bytes or later.
        "_(SSL|TRANSPORT): .*certificate verify failed",
        "CERTIFICATE_VERIFY_FAILED",
        "CERTIFICATE_VERIFY_FAILED",
        "SslAuthenticationException",
    ),
    "log-in, no certificate": NO_CERTIFICATE,
    "log-in, foreign certificate": FOREIGN_CERTIFICATE,
    "certificate, wrong password, PLAIN": WRONG_PASSWORD,
    "certificate, wrong password, SCRAM": WRONG_PASSWORD,
    "certificate, no log-in": ("_MSG_TIMED_OUT", UNREACHED, CLOSED, "TimeoutException"),
    "plain text": ("_MSG_TIMED_OUT", UNREACHED, CLOSED, "TimeoutException"),
    "password in plain text": ("_MSG_TIMED_OUT", UNREACHED, CLOSED, "TimeoutException"),
    "no log-in": ("_MSG_TIMED_OUT", UNREACHED, CLOSED, "TimeoutException"),
}
# What the node logs of each, once for a connection. aiokafka takes the reply that a token is not
# good for a welcome, and goes on without a log-in.
INVALID = "Invalid credentials"
UNKNOWN_ISSUER = "certificate verify failed: unable to get local issuer certificate"
CERTIFICATE_MISSING = "TLS handshake failed: peer did not return a certificate"
PLAIN_TEXT = "plain text on a listener of TLS"
REASONS = {
    "wrong password, PLAIN": "Invalid username or password",
    "wrong password, SCRAM": INVALID,
    "unknown user, PLAIN": "Invalid username or password",
    "unknown user, SCRAM": INVALID,
    "expired token": "The token has expired",
    "wrong audience": "The token is for another audience",
    "unknown mechanism": "handshake refused with UNSUPPORTED_SASL_MECHANISM",
    "mechanism that is off": "handshake refused with UNSUPPORTED_SASL_MECHANISM",
    "foreign certificate": UNKNOWN_ISSUER,
    "expired certificate": "TLS handshake failed: certificate verify failed: certificate has"
    " expired",
    "no certificate": CERTIFICATE_MISSING,
    "log-in, no certificate": CERTIFICATE_MISSING,
    "log-in, foreign certificate": UNKNOWN_ISSUER,
    "certificate, wrong password, PLAIN": "Invalid username or password",
    "certificate, wrong password, SCRAM": INVALID,
    "certificate, no log-in": "API key 3 before a log-in",
    "plain text": PLAIN_TEXT,
    "password in plain text": PLAIN_TEXT,
    "no log-in": "API key 3 before a log-in",
    "TLS 1.1": "TLS handshake failed: unsupported protocol",
}
TAKEN_FOR_A_WELCOME = {"expired token", "wrong audience"}
# What a client refuses by itself does not reach the node; Java tries until its time is over.
REFUSED_BY_CLIENT = {("unknown mechanism", "aiokafka"), ("unknown mechanism", "java")}
LINE_SECONDS_MAX = 2
LOG_SECONDS_MAX = 60


@pytest.mark.parametrize("who", REFUSALS)
def test_a_stranger_is_refused_in_words_of_its_client(
    node: SecuredNode,
    credentials: Credentials,
    client: tuple[str, Entering],
    caplog: pytest.LogCaptureFixture,
    who: str,
) -> None:
    name, enters = client
    listener, login = strangers(credentials)[who]
    address = node.addresses[listener]
    said = enters.refusal(address, login)
    expected = REFUSALS[who][CLIENTS.index(name)]
    assert re.search(expected, said, re.DOTALL), said
    # Of a node that is not trusted the client tells it by an alert, which may be lost.
    if who in REASONS and (who, name) not in REFUSED_BY_CLIENT:
        welcome = name == "aiokafka" and who in TAKEN_FOR_A_WELCOME
        reason = REASONS["no log-in"] if welcome else REASONS[who]
        await_line(caplog, listener, reason, lambda: enters.refusal(address, login))
    assert login.password not in caplog.text


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"], indirect=True)
def test_an_older_tls_is_refused(
    node: SecuredNode,
    credentials: Credentials,
    client: tuple[str, Entering],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By clients that can be told to speak it: librdkafka has no such setting, and Java itself has
    it disabled.
    """
    _, enters = client
    listener, login = strangers(credentials)["TLS 1.1"]
    address = node.addresses[listener]
    assert "TLSV1_ALERT_PROTOCOL_VERSION" in enters.refusal(address, login)
    await_line(caplog, listener, REASONS["TLS 1.1"], lambda: enters.refusal(address, login))


def await_line(
    caplog: pytest.LogCaptureFixture, listener: str, reason: str, enter: Callable[[], str]
) -> None:
    """The node has said why it did not let the client in, once for each connection: clients try
    again. A client may know it before the line is written; on a busy machine its time may be over
    before it has reached the node, so it tries again.
    """
    deadline = time.monotonic() + LOG_SECONDS_MAX
    enter_again = time.monotonic() + LINE_SECONDS_MAX
    while not any(reason in line for line in caplog.messages) and time.monotonic() < deadline:
        time.sleep(0.05)
        if time.monotonic() > enter_again:
            enter()
            enter_again = time.monotonic() + LINE_SECONDS_MAX
    lines = [line for line in caplog.messages if f"listener={listener} " in line]
    assert any(reason in line for line in lines), lines
    peers = [peer[1] for line in lines if (peer := re.search(r"peer=(\S+)", line))]
    assert len(set(peers)) == len(lines), lines
