"""Our commands, and our source and sink of Spark, get into an Apache Kafka that is secured."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rig.apache_kafka.secured import CommandFailed, SecuredKafka, run_penstock
from rig.logins.login import Login
from rig.logins.secured import MECHANISMS
from rig.numbered_rows import judge_topic, write_numbers
from rig.spark_driving import DriverError, SparkDriver, decoded
from rig.spark_query import Carrying

CERTIFICATE = "certificate"
WAYS = (*MECHANISMS, CERTIFICATE)
ROWS = 24


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    one = SecuredKafka(jars=kafka_jars, folder=tmp_path_factory.mktemp("secured"))
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    one = SparkDriver(log=tmp_path_factory.mktemp("spark") / "driver.log")
    yield one
    one.stop()


def entrance(kafka: SecuredKafka, way: str) -> tuple[str, Login]:
    if way == CERTIFICATE:
        return kafka.addresses["SSL"], kafka.by_certificate()
    return kafka.addresses["SASL_SSL"], kafka.by_sasl(way)


def command(folder: Path, bootstrap: str, login: Login, *arguments: str, input: str = "") -> str:
    config = login.write(folder / "client.properties")
    return run_penstock(
        *arguments, "--bootstrap", bootstrap, "--command-config", str(config), input=input
    )


@pytest.mark.parametrize("way", WAYS)
def test_commands_create_write_read_and_list(kafka: SecuredKafka, tmp_path: Path, way: str) -> None:
    bootstrap, login = entrance(kafka, way)
    topic = f"commands-{way}"
    command(tmp_path, bootstrap, login, "topics", "create", topic)
    command(tmp_path, bootstrap, login, "produce", topic, input="one\ntwo\n")
    read = command(tmp_path, bootstrap, login, "consume", topic, "--max", "2")
    assert read.splitlines() == ["one", "two"]
    assert topic in command(tmp_path, bootstrap, login, "topics", "list")


def test_users_are_added_and_removed(kafka: SecuredKafka) -> None:
    at = ("--bootstrap", kafka.addresses["PLAINTEXT"])
    run_penstock("users", "add", "bob", *at, PENSTOCK_USER_PASSWORD="bob-secret")
    assert run_penstock("users", "list", *at).count("bob") == 2
    run_penstock("users", "remove", "bob", *at)
    assert "bob" not in run_penstock("users", "list", *at)


def test_files_of_security_init_get_in_as_they_are(kafka: SecuredKafka) -> None:
    config = str(kafka.made / "client.properties")
    told = run_penstock(
        "cluster", "describe", "--bootstrap", kafka.addresses["SSL"], "--command-config", config
    )
    assert kafka.addresses["SSL"].rpartition(":")[2] in told


def test_a_wrong_password_is_one_clear_line(kafka: SecuredKafka, tmp_path: Path) -> None:
    bootstrap, login = entrance(kafka, "SCRAM-SHA-512")
    wrong = replace(login, password="wrong")
    with pytest.raises(CommandFailed, match="Authentication failed") as refused:
        command(tmp_path, bootstrap, wrong, "topics", "list")
    [line] = str(refused.value).splitlines()
    assert "wrong" not in line


@pytest.mark.parametrize("way", WAYS)
def test_spark_writes_and_reads(driver: SparkDriver, kafka: SecuredKafka, way: str) -> None:
    bootstrap, login = entrance(kafka, way)
    topic = f"spark-{way}"
    run_penstock("topics", "create", topic, "--bootstrap", kafka.addresses["PLAINTEXT"])
    options = spark_options(bootstrap, login)
    rows = [{"key": f"k{number}", "value": f"v{number}"} for number in range(10)]
    driver.ask("write", format="penstock", options={**options, "topic": topic}, rows=rows)
    read = driver.ask("read", format="penstock", options={**options, "subscribe": topic})
    found = {(row["key"], row["value"]) for row in decoded(read)}
    assert found == {(row["key"].encode(), row["value"].encode()) for row in rows}


@pytest.mark.parametrize("way", ["OAUTHBEARER", CERTIFICATE])
def test_a_query_carries_topic_to_topic(
    driver: SparkDriver, kafka: SecuredKafka, tmp_path: Path, way: str
) -> None:
    (bootstrap, login), inside = entrance(kafka, way), kafka.addresses["PLAINTEXT"]
    source, sink = f"from-{way}", f"to-{way}"
    for topic in (source, sink):
        run_penstock("topics", "create", topic, "--bootstrap", inside)
    write_numbers(inside, source, range(ROWS))
    options = spark_options(bootstrap, login)
    carrying = Carrying(
        bootstrap=bootstrap,
        source=source,
        sink=sink,
        checkpoint=str(tmp_path / "checkpoint"),
        reader_options=options,
        writer_options=options,
    )
    assert driver.carry(carrying) == [0]
    assert not judge_topic(inside, sink, count=ROWS, ids=sink).faults


def test_spark_is_told_of_a_wrong_password(driver: SparkDriver, kafka: SecuredKafka) -> None:
    bootstrap, login = entrance(kafka, "SCRAM-SHA-512")
    options = spark_options(bootstrap, replace(login, password="wrong"))
    with pytest.raises(DriverError, match="Authentication failed"):
        driver.ask("read", format="penstock", options={**options, "subscribe": "any"})


def spark_options(bootstrap: str, login: Login) -> dict[str, str]:
    settings = {"bootstrap.servers": bootstrap, **login.java_settings()}
    return {f"kafka.{name}": value for name, value in settings.items()}
