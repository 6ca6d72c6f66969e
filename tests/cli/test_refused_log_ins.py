"""A command over TLS that may not come in says why in one line, and quotes no secret."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.logins.secured import Credentials, SecuredNode
from rig.logins.strangers import strangers

Run = Callable[..., Any]
INVALID = "invalid credentials with SASL mechanism"
REFUSALS = {
    "wrong password, SCRAM": f"{INVALID} SCRAM-SHA-512",
    "expired token": f"{INVALID} OAUTHBEARER",
    "wrong audience": f"{INVALID} OAUTHBEARER",
    "foreign certificate": "alert unknown ca",
    "expired certificate": "alert certificate expired",
    "no certificate": "alert certificate required",
    "log-in, no certificate": "alert certificate required",
    "node that is not trusted": "certificate verify failed: self-signed certificate",
}


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


@pytest.mark.parametrize("who", REFUSALS)
def test_a_stranger_is_refused_in_one_line(
    run: Run, node: SecuredNode, credentials: Credentials, tmp_path: Path, who: str
) -> None:
    listener, login = strangers(credentials)[who]
    config = login.write(tmp_path / "client.properties")
    refused = run(f"topics list --command-config {config}", bootstrap=node.addresses[listener])
    assert refused.status == 1
    [line] = refused.err.strip().splitlines()
    assert line.startswith("penstock: ")
    assert REFUSALS[who] in line
    secrets = [login.password]
    if login.token is not None:
        secrets += login.token.read_text().split(".")
    assert not any(secret in line for secret in secrets)
