"""Strangers cannot tell by two salts that a user does not exist: all listeners of a cluster give an
unknown user the same, after a restart too.
"""

from pathlib import Path

import pytest

from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from rig.dialogue import Dialogue
from rig.running_node import RunningNode

LISTENERS = ("ONE", "OTHER")
SETTINGS = {
    "listeners": ",".join(f"{name}://127.0.0.1:0" for name in (*LISTENERS, "PLAINTEXT")),
    "listener.security.protocol.map": "ONE:SASL_PLAINTEXT,OTHER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


def salts(data: Path, **settings: str) -> set[str]:
    """What a node tells of a user who does not exist, at each listener."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    node = RunningNode(data, {**SETTINGS, **given})
    node.start()
    try:
        addresses = node.node.addresses_by_listener
        return {salt_at(str(addresses[listener])) for listener in LISTENERS}
    finally:
        node.stop()


def salt_at(address: str) -> str:
    talk = Dialogue(address, "unused")
    handshake = SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
    assert talk.exchange(handshake, version=1).error_code == 0
    passwords = SaltedPasswords(ScramMechanism.SCRAM_SHA_256, "x")
    first = ScramClient("eve", passwords, nonce="nonce-of-the-test").first()
    reply = talk.exchange(SaslAuthenticateRequest(auth_bytes=first), version=2)
    talk.close()
    _, salt, _ = bytes(reply.auth_bytes).decode().split(",")
    return salt


@pytest.mark.parametrize("settings", [{}, {"delegation_token_secret_key": "the-secret"}])
def test_an_unknown_user_keeps_its_salt_over_a_restart(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    before = salts(tmp_path, **settings)
    assert len(before) == 1
    assert salts(tmp_path, **settings) == before


def test_the_salt_is_that_of_the_cluster_and_its_secret(tmp_path: Path) -> None:
    told = [
        salts(tmp_path / "one"),
        salts(tmp_path / "another"),
        salts(tmp_path / "one", delegation_token_secret_key="the-secret"),
    ]
    assert len(set.union(*told)) == 3
