"""`penstock users` and `--command-config` against a node whose clients log in."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.running_node import RunningNode
from rig.sasl import sasl_listener

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(
        tmp_path_factory.mktemp("node"), sasl_listener("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    running.start()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def at_node(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    address = node.node.addresses_by_listener["SASL_PLAINTEXT"]
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", str(address))


def config(path: Path, **values: str) -> Path:
    told = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **values}
    path.write_text("".join(f"{name.replace('_', '.')}={text}\n" for name, text in told.items()))
    return path


@pytest.fixture
def admin(tmp_path: Path) -> Path:
    return config(
        tmp_path / "admin.properties", sasl_username="admin", sasl_password="admin-secret"
    )


def test_a_user_that_was_added_logs_in_until_it_is_removed(
    run: Run, admin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_USER_PASSWORD", "carol-secret")
    added = run(f"users add carol --command-config {admin}")
    assert added.lines == ["user carol can log in by SCRAM-SHA-256, SCRAM-SHA-512"]
    listed = run(f"users list --json --command-config {admin}").json()
    assert [row for row in listed if row["user"] == "carol"] == [
        {"user": "carol", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    monkeypatch.setenv("SECRET_OF_CAROL", "carol-secret")
    jaas = 'ScramLoginModule required username="carol" password="${env:SECRET_OF_CAROL}";'
    carol = config(tmp_path / "carol", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
    assert run(f"topics list --command-config {carol}").status == 0
    removed = run(f"users remove carol --mechanism SCRAM-SHA-512 --command-config {admin}")
    assert removed.lines == ["user carol can no longer log in by SCRAM-SHA-512"]
    refused = run(f"topics list --command-config {carol}")
    assert refused.status != 0
    assert "invalid credentials" in refused.err
    assert run(f"users remove carol --command-config {admin}").lines == [
        "user carol can no longer log in by SCRAM-SHA-256"
    ]
    again = run(f"users remove carol --command-config {admin}")
    assert again.status != 0
    assert "no SCRAM credentials" in again.err


def test_passwords_are_taken_from_a_file(run: Run, admin: Path, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("dave-secret\n")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "dave").write_text("dave-secret\n")
    (tmp_path / "keys").write_text("dave=dave-secret\n")
    done = run(f"users add dave --password-file password --command-config {admin}")
    assert done.status == 0
    for place in (f"${{directory:{tmp_path}/secrets:dave}}", f"${{file:{tmp_path}/keys:dave}}"):
        dave = config(
            tmp_path / "dave",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_username="dave",
            sasl_password=place,
        )
        assert run(f"topics list --command-config {dave}").status == 0


@pytest.mark.parametrize("password", [b"\xff\xfe\x00", b""])
def test_a_file_that_holds_no_password_is_told_in_one_line(
    run: Run, admin: Path, tmp_path: Path, password: bytes
) -> None:
    (tmp_path / "password").write_bytes(password)
    refused = run(f"users add dave --password-file password --command-config {admin}")
    assert refused.status == 1
    assert refused.err.startswith("penstock: the password of dave ")
    assert refused.err.count("\n") == 1


def test_the_file_may_be_named_by_the_environment(
    run: Run, admin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_COMMAND_CONFIG", str(admin))
    assert run("topics create orders").lines == ["created orders"]
    assert run("topics delete orders").lines == ["deleted orders"]


def test_a_command_without_log_in_is_refused_with_one_line(run: Run) -> None:
    refused = run("topics list")
    assert refused.status != 0
    assert len(refused.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"sasl_mechanism": "GSSAPI"}, "no SASL mechanism"),
        ({"sasl_username": "admin"}, "sasl.password is missing"),
        ({"sasl_jaas_config": 'X required password="top-secret'}, "sasl.jaas.config"),
        ({"sasl_username": "u", "sasl_password": "${env:NOWHERE}"}, "no such variable"),
        ({"sasl_username": "admin", "sasl_password": "top-secret"}, "Invalid username or password"),
        ({"security_protocol": "TLS"}, "expected one of PLAINTEXT"),
    ],
)
def test_a_file_that_does_not_let_in_says_why_without_its_secrets(
    run: Run, tmp_path: Path, values: dict[str, str], said: str
) -> None:
    refused = run(f"topics list --command-config {config(tmp_path / 'c', **values)}")
    assert refused.status != 0
    assert said in refused.err
    assert "top-secret" not in refused.err
