"""`penstock tokens`, and commands that log in by what it creates."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.running_node import RunningNode
from rig.tokens import USERS, settings_with_tokens

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("node"), settings_with_tokens())
    running.start()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def at_node(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    address = node.node.addresses_by_listener["SASL_PLAINTEXT"]
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", str(address))


def config(path: Path, *, mechanism: str, jaas: str) -> Path:
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    return path


@pytest.fixture
def alice(tmp_path: Path) -> Path:
    jaas = f'PlainLoginModule required username="alice" password="{USERS["alice"]}";'
    return config(tmp_path / "alice.properties", mechanism="PLAIN", jaas=jaas)


def with_token(path: Path, made: dict[str, str], mechanism: str = "SCRAM-SHA-512") -> Path:
    jaas = (
        f'ScramLoginModule required username="{made["token"]}" password="{made["hmac"]}"'
        ' tokenauth="true";'
    )
    return config(path, mechanism=mechanism, jaas=jaas)


def listed(run: Run, alice: Path) -> dict[str, dict[str, Any]]:
    rows = run(f"tokens list --json --command-config {alice}").json()
    return {row["token"]: row for row in rows}


def test_a_token_is_used_until_it_is_expired(run: Run, alice: Path, tmp_path: Path) -> None:
    made = run(f"tokens create --renewer bob --lifetime 2d --json --command-config {alice}").json()
    assert (made["owner"], made["requester"], made["renewers"]) == (
        "User:alice",
        "User:alice",
        ["User:bob"],
    )
    assert made["max_ms"] - made["issued_ms"] == 2 * 86_400_000
    assert len(base64.b64decode(made["hmac"])) == 64
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        file = with_token(tmp_path / "token", made, mechanism)
        assert run(f"topics list --command-config {file}").status == 0
    refused = run(f"tokens list --command-config {file}")
    assert refused.status != 0
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.err
    renewed = run(f"tokens renew {made['token']} --for 36h --json --command-config {alice}").json()
    assert renewed["token"] == made["token"]
    assert listed(run, alice)[made["token"]]["expires_ms"] == renewed["expires_ms"]
    soon = run(f"tokens expire {made['token']} --after 1h --json --command-config {alice}").json()
    assert soon["expires_ms"] < renewed["expires_ms"]
    ended = run(f"tokens expire {made['token']} --command-config {alice}")
    assert ended.lines[0].startswith(f"token {made['token']} expires at ")
    assert made["token"] not in listed(run, alice)
    refused = run(f"topics list --command-config {file}")
    assert refused.status != 0
    assert "invalid credentials" in refused.err


def test_people_read_tokens_without_their_passwords(run: Run, alice: Path) -> None:
    created = run(f"tokens create --owner User:carol --command-config {alice}")
    token_id = created.lines[0].split()[1]
    assert created.lines[0].startswith(f"token {token_id} of User:carol expires at 20")
    password = created.lines[1].removeprefix("HMAC ")
    shown = run(f"tokens list --owner carol --command-config {alice}")
    assert token_id in shown.text
    assert password not in shown.text
    assert password in run(f"tokens list --show-hmac --command-config {alice}").text
    assert token_id not in run(f"tokens list --owner bob --command-config {alice}").text
    for form in ("", "--json"):
        plain = run(f"tokens list {form} --command-config {alice}")
        assert password not in plain.text


def test_what_is_refused_is_told_in_one_line(
    run: Run, alice: Path, node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob_owned = run(f"tokens create --owner bob --json --command-config {alice}").json()
    for command, said in (
        ("tokens renew nothing", "DELEGATION_TOKEN_NOT_FOUND"),
        (f"tokens renew {bob_owned['token']}", "DELEGATION_TOKEN_OWNER_MISMATCH"),
        ("tokens create --owner Group:x", "INVALID_PRINCIPAL_TYPE"),
        ("tokens create --lifetime soon", "expected a duration"),
        ("tokens create --renewer User:", "expected a principal"),
    ):
        refused = run(f"{command} --command-config {alice}")
        assert refused.status != 0
        assert said in refused.err
        assert bob_owned["hmac"] not in refused.err
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", str(node.node.addresses_by_listener["PLAINTEXT"]))
    refused = run("tokens create")
    assert refused.status != 0
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.err
    assert len(refused.err.strip().splitlines()) == 1


def test_a_token_needs_scram(run: Run, tmp_path: Path) -> None:
    jaas = 'PlainLoginModule required username="t" password="top-secret" tokenauth="true";'
    file = config(tmp_path / "plain", mechanism="PLAIN", jaas=jaas)
    refused = run(f"topics list --command-config {file}")
    assert refused.status != 0
    assert "tokenauth is for SCRAM-SHA-256 and SCRAM-SHA-512" in refused.err
    assert "top-secret" not in refused.err
