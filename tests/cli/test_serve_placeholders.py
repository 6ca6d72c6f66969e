"""A node's passwords need not stand in its `server.properties`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.serve import read_settings
from penstock.model.settings.broker import without_effect
from penstock.world.placeholders import Unresolved
from rig.sasl import PLAIN_MODULE
from rig.serve import ServedNode

Run = Callable[..., Any]
JAAS = f'{PLAIN_MODULE} required user_alice="${{env:SECRET_OF_ALICE}}";'


def test_clients_log_in_by_a_password_of_the_environment_that_no_command_shows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_ALICE", "s3cret")
    (tmp_path / "secrets").write_text("key=t0ken\n")
    node = ServedNode(
        data=tmp_path / "data",
        settings={
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
            "delegation.token.secret.key": f"${{file:{tmp_path / 'secrets'}:key}}",
        },
    )
    node.start()
    secured, plain = node.bootstrap.split(",")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\n"
        "sasl.password=${env:SECRET_OF_ALICE}\n"
    )
    assert run(f"topics list --command-config {file}", bootstrap=secured).status == 0
    shown = run("configs describe --broker 1 --all --json", bootstrap=plain)
    assert shown.status == 0, shown.err
    assert "delegation.token.secret.key" in shown.text
    node.stop()
    for secret in ("s3cret", "t0ken"):
        assert secret not in shown.text + node.logged()


def test_settings_of_a_file_and_of_the_command_line_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTITIONS", "7")
    file = tmp_path / "server.properties"
    file.write_text(
        "config.providers=mine\nnum.partitions=${mine:PARTITIONS}\n"
        "config.providers.mine.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.mine.param.allowlist.pattern=.*\n"
    )
    settings = read_settings(
        listen=None, config=file, assignments=("min.insync.replicas=${env:PARTITIONS}",)
    )
    assert (settings.num_partitions, settings.min_insync_replicas) == (7, 7)
    assert without_effect(settings) == settings.unknown == ()


def test_a_variable_that_is_missing_ends_the_start_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("ssl.key.password=${env:NOWHERE}\n")
    with pytest.raises(Unresolved) as refused:
        read_settings(listen=None, config=file, assignments=())
    expected = "ssl.key.password: ${env:NOWHERE}: the environment has no such variable"
    assert str(refused.value) == expected


def test_commands_on_the_directories_of_a_node_read_the_same_settings(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=3\nlog.dirs=${env:LOG_DIRECTORY}\n")
    refused = run(f"storage format --config {file}")
    assert refused.status == 1
    assert refused.err.splitlines()[-1].endswith(
        "log.dirs: ${env:LOG_DIRECTORY}: the environment has no such variable"
    )
    monkeypatch.setenv("LOG_DIRECTORY", str(tmp_path / "logs"))
    assert run(f"storage format --config {file}").status == 0
    (described,) = run(f"storage info --config {file} --json").json()
    assert (described["path"], described["node_id"]) == (str(tmp_path / "logs"), 3)
