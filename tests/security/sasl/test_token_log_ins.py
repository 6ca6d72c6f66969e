"""SCRAM by delegation tokens: the owner comes in, as long as the token counts."""

import pytest

from penstock.model.limit import TOKEN_CREDENTIALS_KEPT_MAX
from penstock.model.sasl import Mechanism, ScramMechanism
from penstock.security.delegation_token import DelegationToken, token_hmac, token_password
from penstock.security.principal import USER, Principal
from penstock.security.sasl.dialogue import Dialogue, Login, TokenAnswer
from penstock.security.sasl.exchange import Accepted, Challenge, Hashing, Rejected, Step
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient
from penstock.security.sasl.scram_credential import ScramCredential, new_credential
from penstock.security.sasl.scram_server import ScramServer
from penstock.security.sasl.token_credentials import TokenCredentials, TokenLogin

SECRET = "secret"
SHA_256 = ScramMechanism.SCRAM_SHA_256
PASSWORD = token_password(token_hmac(SECRET, "token-1"))
TOKEN = DelegationToken(
    token_id="token-1",
    owner="User:alice",
    requester="User:bob",
    renewers=(),
    issued_ms=0,
    max_ms=2000,
    expires_ms=1000,
)


def server(
    mechanism: ScramMechanism = SHA_256,
    *tokens: DelegationToken,
    users: dict[str, ScramCredential] | None = None,
) -> ScramServer:
    found = TokenCredentials(SECRET, lambda: {one.token_id: one for one in tokens or (TOKEN,)})
    return ScramServer(
        mechanism,
        (users or {}).get,
        nonce="server",
        decoy_key=b"decoy",
        token=lambda token_id, now_ms: found.find(mechanism, token_id, now_ms=now_ms),
    )


def log_in(
    other: ScramServer,
    *,
    user: str = "token-1",
    password: str = PASSWORD,
    mechanism: ScramMechanism = SHA_256,
    now_ms: int = 0,
    by_token: bool = True,
) -> Step:
    passwords = SaltedPasswords(mechanism, password)
    one = ScramClient(user, passwords, nonce="client", by_token=by_token)
    challenge = other.respond(one.first(), now_ms=now_ms)
    if isinstance(challenge, Hashing):
        challenge.keep(challenge.compute())
        challenge = other.respond(one.first(), now_ms=now_ms)
    assert isinstance(challenge, Challenge)
    final = one.respond(challenge.token)
    assert final is not None
    verdict = other.respond(final, now_ms=now_ms)
    if isinstance(verdict, Accepted):
        assert one.respond(verdict.token) is None
        assert one.is_complete
    return verdict


def hashed(found: TokenCredentials, mechanism: ScramMechanism, token_id: str) -> TokenLogin:
    """As it is found once its credential has been computed."""
    hashing = found.find(mechanism, token_id, now_ms=0)
    assert isinstance(hashing, Hashing)
    hashing.keep(hashing.compute())
    login = found.find(mechanism, token_id, now_ms=0)
    assert isinstance(login, TokenLogin)
    return login


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_token_lets_its_owner_in_until_it_expires(mechanism: ScramMechanism) -> None:
    verdict = log_in(server(mechanism), mechanism=mechanism, now_ms=1000)
    assert isinstance(verdict, Accepted)
    assert (verdict.user, verdict.by_token, verdict.expires_ms) == ("alice", True, 1000)


@pytest.mark.parametrize(
    "asked",
    [
        {"password": "wrong"},
        {"user": "token-2"},
        {"user": "alice"},
        {"now_ms": 1001},
        {"by_token": False},
    ],
)
def test_whatever_is_wrong_looks_the_same(asked: dict[str, object]) -> None:
    verdict = log_in(server(), **asked)  # type: ignore[arg-type]
    assert verdict == Rejected(reason="Invalid credentials")


def test_a_user_does_not_come_in_as_a_token_nor_a_token_as_a_user() -> None:
    users = {"alice": new_credential(SHA_256, "wonderland", salt=b"salt of the test")}
    as_user = log_in(server(users=users), user="alice", password="wonderland", by_token=False)
    assert isinstance(as_user, Accepted)
    assert (as_user.user, as_user.by_token, as_user.expires_ms) == ("alice", False, None)
    as_token = log_in(server(users=users), user="alice", password="wonderland")
    assert isinstance(as_token, Rejected)


def test_all_nodes_have_the_same_salt_and_tokens_have_different_ones() -> None:
    tokens = {
        name: DelegationToken(
            token_id=name,
            owner="User:alice",
            requester="User:alice",
            renewers=(),
            issued_ms=0,
            max_ms=1,
            expires_ms=1,
        )
        for name in ("one", "other")
    }
    nodes = [TokenCredentials(SECRET, lambda: tokens) for _ in range(2)]
    salts = []
    for node in nodes:
        for name in tokens:
            salts.append(hashed(node, SHA_256, name).credential.salt)
    assert salts[:2] == salts[2:]
    assert salts[0] != salts[1]


def test_a_token_that_is_gone_is_not_remembered() -> None:
    tokens = {"token-1": TOKEN}
    found = TokenCredentials(SECRET, lambda: tokens)
    first = hashed(found, SHA_256, "token-1")
    assert found.find(SHA_256, "token-1", now_ms=0) == first
    tokens.clear()
    assert found.find(SHA_256, "token-1", now_ms=0) is None


def test_credentials_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TOKEN_CREDENTIALS_KEPT_MAX > 1
    monkeypatch.setattr("penstock.security.sasl.token_credentials.TOKEN_CREDENTIALS_KEPT_MAX", 1)
    found = TokenCredentials(SECRET, lambda: {"token-1": TOKEN})
    for mechanism in ScramMechanism:
        hashed(found, mechanism, "token-1")
    assert len(found._kept) == 1


def test_what_is_to_be_computed_shows_no_secret() -> None:
    found = TokenCredentials("a-secret-of-many-letters", lambda: {"token-1": TOKEN})
    assert "a-secret-of-many-letters" not in repr(found.find(SHA_256, "token-1", now_ms=0))


def test_a_token_that_ends_while_it_is_hashed_lets_nobody_in() -> None:
    tokens = {"token-1": TOKEN}
    found = TokenCredentials(SECRET, lambda: tokens)
    hashing = found.find(SHA_256, "token-1", now_ms=0)
    assert isinstance(hashing, Hashing)
    credential = hashing.compute()
    tokens.clear()
    hashing.keep(credential)
    assert found.find(SHA_256, "token-1", now_ms=0) is None


@pytest.mark.parametrize("was_token", [True, False])
def test_a_session_goes_on_only_as_it_began(was_token: bool) -> None:
    """A token of a user does not continue what its password began, nor the other way round."""
    users = {"alice": new_credential(SHA_256, "wonderland", salt=b"salt of the test")}
    before = Login(
        principal=Principal(USER, "alice", was_token),
        mechanism=Mechanism.SCRAM_SHA_256,
        expires_ms=None,
    )
    for by_token in (True, False):
        exchanges = {Mechanism.SCRAM_SHA_256: lambda: server(users=users)}
        dialogue = Dialogue(exchanges, before=before)
        dialogue.handshake("SCRAM-SHA-256")
        passwords = SaltedPasswords(SHA_256, PASSWORD if by_token else "wonderland")
        user = "token-1" if by_token else "alice"
        one = ScramClient(user, passwords, nonce="client", by_token=by_token)
        challenge = dialogue.token(one.first(), now_ms=0)
        if isinstance(challenge, Hashing):
            challenge.keep(challenge.compute())
            challenge = dialogue.token(one.first(), now_ms=0)
        assert isinstance(challenge, TokenAnswer)
        final = one.respond(challenge.token)
        assert final is not None
        verdict = dialogue.token(final, now_ms=0)
        assert isinstance(verdict, TokenAnswer)
        login = verdict.login
        assert (login is not None) == (by_token == was_token)
        if login is not None:
            assert login.principal.token_authenticated == by_token
