"""`penstock security init`, and commands over TLS."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from penstock.world.properties import read_properties
from rig.running_node import RunningNode

Run = Callable[..., Any]


@pytest.fixture
def made(run: Run, tmp_path: Path) -> Path:
    assert run("security init certificates").status == 0
    return tmp_path / "certificates"


def test_what_it_makes_lets_a_node_be_used_by_the_command_line_and_librdkafka(
    run: Run, made: Path, tmp_path: Path
) -> None:
    settings = read_properties(made / "node-1.properties")
    node = RunningNode(tmp_path / "data", {**settings, "listeners": "SSL://127.0.0.1:0"})
    node.start()
    try:
        config = made / "client.properties"
        created = run(f"topics create a --command-config {config}", bootstrap=node.bootstrap)
        assert created.status == 0, created
        rdkafka = json.loads((made / "librdkafka.json").read_text())
        admin = AdminClient({"bootstrap.servers": node.bootstrap, **rdkafka})
        assert "a" in admin.list_topics(timeout=60).topics
        refused = run("topics list", bootstrap=node.bootstrap)
        assert refused.status == 1
    finally:
        node.stop()


def test_private_keys_are_for_their_owner_alone(made: Path) -> None:
    keys = [path for path in made.iterdir() if "PRIVATE KEY" in path.read_text()]
    assert {path.name for path in keys} == {"ca.key", "client.key", "client.pem", "node-1.pem"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}


def test_options_for_spark_are_those_of_java_with_a_prefix(made: Path) -> None:
    java = read_properties(made / "client.properties")
    spark = json.loads((made / "spark.json").read_text())
    assert spark == {f"kafka.{name}": value for name, value in java.items()}


def test_nothing_is_overwritten(run: Run, made: Path) -> None:
    before = (made / "ca.pem").read_text()
    again = run("security init certificates")
    assert again.status == 1
    assert "is not empty" in again.err
    assert (made / "ca.pem").read_text() == before


def test_a_protocol_that_is_not_spoken_is_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=TLS\n")
    refused = run(f"topics list --command-config {config}", bootstrap="127.0.0.1:1")
    assert refused.status == 1
    assert "expected one of PLAINTEXT, SSL" in refused.err


@pytest.mark.parametrize(
    ("host", "end"),
    [
        ("bücher.example", "give the encoded name: xn--bcher-kva.example\n"),
        ("straße.example", "give the encoded name\n"),
        ("ü..example", "give the encoded name\n"),
        ("''", "name a host or an address\n"),
    ],
)
def test_name_that_no_certificate_can_have_is_refused_before_anything_is_written(
    run: Run, tmp_path: Path, host: str, end: str
) -> None:
    refused = run(f"security init certificates --host localhost --host {host}")
    assert refused.status == 1
    assert refused.err.startswith("penstock: --host ")
    assert refused.err.endswith(end)
    assert len(refused.err.splitlines()) == 1
    assert not (tmp_path / "certificates").exists()


@pytest.mark.parametrize("names", [["ca"], ["node-2"], ["twice", "twice"], ["x" * 65], ["ü" * 33]])
def test_client_that_cannot_have_a_name_is_refused_before_anything_is_written(
    run: Run, tmp_path: Path, names: list[str]
) -> None:
    options = " ".join(f"--client {name}" for name in names)
    refused = run(f"security init certificates --nodes 2 {options}")
    assert refused.status == 1
    assert refused.err.startswith(f"penstock: --client {names[0]}: ")
    assert len(refused.err.splitlines()) == 1
    assert not (tmp_path / "certificates").exists()
