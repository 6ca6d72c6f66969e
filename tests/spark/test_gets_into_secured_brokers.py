"""Our source and sink, and Spark's own, get in by each mechanism over TLS and by a certificate, at
a node and at three that are secured inside as well.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rig.apache_kafka.jars import PeerMissing
from rig.logins.java import ALLOWED_URLS
from rig.logins.login import Login
from rig.logins.secured import (
    MECHANISMS,
    Credentials,
    SecuredNode,
    certificate_cluster,
    sasl_cluster,
)
from rig.logins.topics import create_topic
from rig.numbered_rows import judge_topic, write_numbers
from rig.small_spark import SHORT_LIVED_JAVA
from rig.spark_connector import connector_jars
from rig.spark_driving import DriverError, SparkDriver, decoded
from rig.spark_query import OFFICIAL, PENSTOCK, Carrying

ROWS = 24
FORMATS = (PENSTOCK, OFFICIAL)
CERTIFICATE = "certificate"
WAYS = (*MECHANISMS, CERTIFICATE)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    one = SecuredNode(tmp_path_factory.mktemp("node"), credentials)
    yield one
    one.stop()


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[dict[str, str]]:
    """Addresses of one that asks for log-ins, and of one that asks for certificates."""
    with (
        sasl_cluster(tmp_path_factory.mktemp("sasl"), credentials) as by_sasl,
        certificate_cluster(tmp_path_factory.mktemp("certificates"), credentials) as by_certificate,
    ):
        by_sasl.start()
        by_certificate.start()
        yield {"SASL_SSL": by_sasl.bootstrap, "SSL": by_certificate.bootstrap}


@pytest.fixture(params=["a node", "a cluster"])
def addresses(request: pytest.FixtureRequest) -> dict[str, str]:
    """By the protocol that is spoken there."""
    if request.param == "a cluster":
        found: dict[str, str] = request.getfixturevalue("clusters")
        return found
    node: SecuredNode = request.getfixturevalue("secured")
    return node.addresses


@pytest.fixture(scope="module")
def driver(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SparkDriver]:
    """With Spark's own connector, where its jars can be had."""
    # Java reads a token from a file that its process allows alone.
    allowed = f"-D{ALLOWED_URLS}={credentials.token.as_uri()}"
    settings = {"spark.driver.extraJavaOptions": f"{SHORT_LIVED_JAVA} {allowed}"}
    with contextlib.suppress(PeerMissing):  # tests of it are skipped
        settings["spark.jars"] = ",".join(map(str, connector_jars()))
    one = SparkDriver(log=tmp_path_factory.mktemp("spark") / "driver.log", settings=settings)
    yield one
    one.stop()


@pytest.fixture(params=FORMATS)
def format_name(request: pytest.FixtureRequest) -> str:
    if request.param == OFFICIAL:
        try:
            connector_jars()
        except PeerMissing as missing:
            pytest.skip(f"needs Spark's Kafka connector: {missing}")
    return str(request.param)


def login_by(credentials: Credentials, way: str) -> Login:
    return credentials.by_certificate() if way == CERTIFICATE else credentials.by_sasl(way)


def options_of(bootstrap: str, login: Login) -> dict[str, str]:
    """Options of a reader or a writer."""
    settings = {"bootstrap.servers": bootstrap, **login.java_settings()}
    return {f"kafka.{name}": value for name, value in settings.items()}


@pytest.mark.parametrize("way", WAYS)
def test_a_frame_is_written_and_read(
    driver: SparkDriver,
    addresses: dict[str, str],
    credentials: Credentials,
    format_name: str,
    way: str,
) -> None:
    login = login_by(credentials, way)
    bootstrap = addresses[login.protocol]
    topic = create_topic(bootstrap, login, f"frame-{format_name}-{way}")
    options = options_of(bootstrap, login)
    rows = [{"key": f"k{number}", "value": f"v{number}"} for number in range(10)]
    driver.ask("write", format=format_name, options={**options, "topic": topic}, rows=rows)
    read = driver.ask("read", format=format_name, options={**options, "subscribe": topic})
    found = {(row["key"], row["value"]) for row in decoded(read)}
    assert found == {(row["key"].encode(), row["value"].encode()) for row in rows}


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "OAUTHBEARER", CERTIFICATE])
def test_a_query_carries_topic_to_topic(
    driver: SparkDriver,
    secured: SecuredNode,
    credentials: Credentials,
    tmp_path: Path,
    format_name: str,
    way: str,
) -> None:
    login, inside = login_by(credentials, way), secured.addresses["PLAINTEXT"]
    bootstrap = secured.addresses[login.protocol]
    source = create_topic(bootstrap, login, f"from-{format_name}-{way}")
    sink = create_topic(bootstrap, login, f"to-{format_name}-{way}")
    write_numbers(inside, source, range(ROWS))
    options = options_of(bootstrap, login)
    carrying = Carrying(
        bootstrap=bootstrap,
        source=source,
        sink=sink,
        checkpoint=str(tmp_path / "checkpoint"),
        reader=format_name,
        writer=format_name,
        reader_options=options,
        writer_options=options,
    )
    assert driver.carry(carrying) == [0]
    assert not judge_topic(inside, sink, count=ROWS, ids=sink).faults


def test_a_query_carries_topic_to_topic_of_a_cluster(
    driver: SparkDriver,
    clusters: dict[str, str],
    credentials: Credentials,
    tmp_path: Path,
    format_name: str,
) -> None:
    login = credentials.by_sasl("SCRAM-SHA-256")
    bootstrap = clusters[login.protocol]
    source = create_topic(bootstrap, login, f"from-{format_name}")
    sink = create_topic(bootstrap, login, f"to-{format_name}")
    options = options_of(bootstrap, login)
    rows = [{"key": f"k{number}", "value": f"v{number}"} for number in range(ROWS)]
    driver.ask("write", format=format_name, options={**options, "topic": source}, rows=rows)
    carrying = Carrying(
        bootstrap=bootstrap,
        source=source,
        sink=sink,
        checkpoint=str(tmp_path / "checkpoint"),
        reader=format_name,
        writer=format_name,
        reader_options=options,
        writer_options=options,
    )
    assert driver.carry(carrying) == [0]
    read = driver.ask("read", format=PENSTOCK, options={**options, "subscribe": sink})
    found = sorted((row["key"], row["value"]) for row in decoded(read))
    assert found == sorted((row["key"].encode(), row["value"].encode()) for row in rows)


def test_a_wrong_password_is_named(
    driver: SparkDriver, secured: SecuredNode, credentials: Credentials, format_name: str
) -> None:
    wrong = replace(credentials.by_sasl("SCRAM-SHA-512"), password="wrong-secret")
    options = {**options_of(secured.addresses["SASL_SSL"], wrong), "subscribe": "any"}
    with pytest.raises(DriverError, match="Authentication failed") as refused:
        driver.ask("read", format=format_name, options=options)
    assert "wrong-secret" not in str(refused.value)
