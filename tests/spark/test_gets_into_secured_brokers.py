"""Our source and sink, and Spark's own, get into a node over TLS by SCRAM and by a certificate."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rig.apache_kafka.jars import PeerMissing
from rig.clients.confluent import ConfluentClient
from rig.logins.login import Login
from rig.logins.secured import Credentials, SecuredNode
from rig.numbered_rows import judge_topic, write_numbers
from rig.spark_connector import connector_jars
from rig.spark_driving import DriverError, SparkDriver, decoded
from rig.spark_query import OFFICIAL, PENSTOCK, Carrying

ROWS = 24
FORMATS = (PENSTOCK, OFFICIAL)
WAYS = ("SCRAM-SHA-512", "certificate")


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
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """With Spark's own connector, where its jars can be had."""
    try:
        settings = {"spark.jars": ",".join(map(str, connector_jars()))}
    except PeerMissing:
        settings = {}
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


def entrance(secured: SecuredNode, credentials: Credentials, way: str) -> dict[str, str]:
    """Options of a reader or a writer."""
    if way == "certificate":
        return options_of(secured.addresses["SSL"], credentials.by_certificate())
    return options_of(secured.addresses["SASL_SSL"], credentials.by_sasl(way))


def options_of(bootstrap: str, login: Login) -> dict[str, str]:
    settings = {"bootstrap.servers": bootstrap, **login.java_settings()}
    return {f"kafka.{name}": value for name, value in settings.items()}


def create_topic(secured: SecuredNode, name: str) -> str:
    client = ConfluentClient(secured.addresses["PLAINTEXT"])
    client.create_topic(name, partitions=2)
    client.close()
    return name


@pytest.mark.parametrize("way", WAYS)
def test_a_frame_is_written_and_read(
    driver: SparkDriver, secured: SecuredNode, credentials: Credentials, format_name: str, way: str
) -> None:
    topic = create_topic(secured, f"frame-{format_name}-{way}")
    options = entrance(secured, credentials, way)
    rows = [{"key": f"k{number}", "value": f"v{number}"} for number in range(10)]
    driver.ask("write", format=format_name, options={**options, "topic": topic}, rows=rows)
    read = driver.ask("read", format=format_name, options={**options, "subscribe": topic})
    found = {(row["key"], row["value"]) for row in decoded(read)}
    assert found == {(row["key"].encode(), row["value"].encode()) for row in rows}


@pytest.mark.parametrize("way", WAYS)
def test_a_query_carries_topic_to_topic(
    driver: SparkDriver,
    secured: SecuredNode,
    credentials: Credentials,
    tmp_path: Path,
    format_name: str,
    way: str,
) -> None:
    source = create_topic(secured, f"from-{format_name}-{way}")
    sink = create_topic(secured, f"to-{format_name}-{way}")
    inside = secured.addresses["PLAINTEXT"]
    write_numbers(inside, source, range(ROWS))
    options = entrance(secured, credentials, way)
    carrying = Carrying(
        bootstrap=options["kafka.bootstrap.servers"],
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


def test_a_wrong_password_is_named(
    driver: SparkDriver, secured: SecuredNode, credentials: Credentials, format_name: str
) -> None:
    wrong = replace(credentials.by_sasl("SCRAM-SHA-512"), password="wrong-secret")
    options = {**options_of(secured.addresses["SASL_SSL"], wrong), "subscribe": "any"}
    with pytest.raises(DriverError, match="Authentication failed") as refused:
        driver.ask("read", format=format_name, options=options)
    assert "wrong-secret" not in str(refused.value)
