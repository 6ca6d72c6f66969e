"""Clients that log in and ask for delegation tokens, one protocol message at a time."""

from collections.abc import Mapping

from penstock.model.error import ErrorCode
from penstock.model.sasl import ScramMechanism
from penstock.security.delegation_token import token_password
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient
from penstock.wire.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from rig.dialogue import Dialogue
from rig.sasl import SCRAM_MODULE, plain_users, sasl_listener

SECRET = "the-secret-of-the-cluster"
NAMES = ("admin", "alice", "bob", "carol")
USERS = {name: f"{name}-secret" for name in NAMES}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def settings_with_tokens(**settings: str) -> Mapping[str, str]:
    """Of a node with a listener where users log in by PLAIN and tokens by SCRAM."""
    return {
        **sasl_listener(*MECHANISMS, **{"delegation_token_secret_key": SECRET, **settings}),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(USERS),
    }


def kafka_settings_with_tokens(**settings: str) -> dict[str, str]:
    """The same of Apache Kafka, which is told its listener elsewhere."""
    ours = settings_with_tokens(**settings)
    prefix = "listener.name.sasl_plaintext"
    return {
        **{name: value for name, value in ours.items() if name != "listeners"},
        **{
            f"{prefix}.{mechanism.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;"
            for mechanism in MECHANISMS
            if mechanism.startswith("SCRAM")
        },
    }


def logged_in(bootstrap: str, user: str) -> Dialogue:
    talk = Dialogue(bootstrap, "unused")
    assert talk.exchange(SaslHandshakeRequest(mechanism="PLAIN"), version=1).error_code == 0
    token = f"\0{user}\0{USERS[user]}".encode()
    assert talk.exchange(SaslAuthenticateRequest(auth_bytes=token), version=2).error_code == 0
    return talk


def create(
    talk: Dialogue, *renewers: str, owner: str | None = None, lifetime_ms: int = -1
) -> CreateDelegationTokenResponse:
    reply = talk.exchange(
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=[
                CreatableRenewer(principal_type="User", principal_name=name) for name in renewers
            ],
            max_lifetime_ms=lifetime_ms,
        ),
        version=3,
    )
    assert isinstance(reply, CreateDelegationTokenResponse)
    return reply


def renew(talk: Dialogue, mac: bytes, period_ms: int = -1) -> int:
    """The error code."""
    request = RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms)
    code: int = talk.exchange(request, version=2).error_code
    return code


def expire(talk: Dialogue, mac: bytes, period_ms: int = -1) -> int:
    """The error code."""
    request = ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms)
    code: int = talk.exchange(request, version=2).error_code
    return code


def describe(talk: Dialogue, *owners: str) -> DescribeDelegationTokenResponse:
    """Tokens of these, or all that the client may see."""
    named = [
        DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners
    ]
    reply = talk.exchange(DescribeDelegationTokenRequest(owners=named or None), version=3)
    assert isinstance(reply, DescribeDelegationTokenResponse)
    return reply


def seen(talk: Dialogue, *owners: str) -> set[str]:
    """The ids of the tokens that are described."""
    return {token.token_id for token in describe(talk, *owners).tokens}


def log_in_by_token(bootstrap: str, token_id: str, mac: bytes, mechanism: str) -> Dialogue | None:
    """A conversation as the owner of a token; None when the node does not let it in."""
    kind = ScramMechanism[mechanism.replace("-", "_")]
    passwords = SaltedPasswords(kind, token_password(mac))
    client = ScramClient(token_id, passwords, nonce="nonce-of-the-test", by_token=True)
    talk = Dialogue(bootstrap, "unused")
    assert talk.exchange(SaslHandshakeRequest(mechanism=mechanism), version=1).error_code == 0
    sent: bytes | None = client.first()
    while sent is not None:
        reply = talk.exchange(SaslAuthenticateRequest(auth_bytes=sent), version=2)
        if reply.error_code != ErrorCode.NONE:
            assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            talk.close()
            return None
        sent = client.respond(bytes(reply.auth_bytes))
    assert client.is_complete
    return talk
