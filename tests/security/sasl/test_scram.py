"""SCRAM: both sides against each other, against the example of RFC 7677, and against nonsense."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.exchange import Accepted, Challenge, LoginRefused, Rejected, Step
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient
from penstock.security.sasl.scram_credential import ScramCredential, new_credential
from penstock.security.sasl.scram_server import ScramServer

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = b"salt of the test"
CREDENTIALS = {
    mechanism: {
        user: new_credential(mechanism, password, salt=SALT)
        for user, password in (("alice", "wonderland"), ("a=b,c", "=,="))
    }
    for mechanism in ScramMechanism
}


def server(mechanism: ScramMechanism = SHA_256, nonce: str = "server") -> ScramServer:
    return ScramServer(mechanism, CREDENTIALS[mechanism].get, nonce=nonce, decoy_key=b"decoy")


def client(
    user: str, password: str, mechanism: ScramMechanism = SHA_256, nonce: str = "client"
) -> ScramClient:
    return ScramClient(user, SaltedPasswords(mechanism, password), nonce=nonce)


def log_in(one: ScramClient, other: ScramServer) -> Step:
    challenge = other.respond(one.first(), now_ms=0)
    assert isinstance(challenge, Challenge)
    final = one.respond(challenge.token)
    assert final is not None
    return other.respond(final, now_ms=0)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(("user", "password"), [("alice", "wonderland"), ("a=b,c", "=,=")])
def test_each_side_learns_that_the_other_knows_the_password(
    mechanism: ScramMechanism, user: str, password: str
) -> None:
    one = client(user, password, mechanism)
    verdict = log_in(one, server(mechanism))
    assert isinstance(verdict, Accepted)
    assert verdict.user == user
    assert not one.is_complete
    assert one.respond(verdict.token) is None
    assert one.is_complete


def test_the_example_of_the_rfc_is_spoken() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = new_credential(SHA_256, "pencil", salt=salt, iterations=4096)
    own = r"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    one = client("user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    other = ScramServer(SHA_256, lambda _: credential, nonce=own, decoy_key=b"")
    challenge = other.respond(one.first(), now_ms=0)
    assert isinstance(challenge, Challenge)
    assert challenge.token.decode() == (
        rf"r=rOprNGfwEbeRWgbNEkqO{own},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = one.respond(challenge.token)
    assert final is not None
    assert final.decode() == (
        f"c=biws,r=rOprNGfwEbeRWgbNEkqO{own},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    verdict = other.respond(final, now_ms=0)
    assert isinstance(verdict, Accepted)
    assert verdict.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_wrong_password_and_an_unknown_user_look_the_same() -> None:
    wrong = log_in(client("alice", "looking-glass"), server())
    unknown = log_in(client("eve", "looking-glass"), server())
    assert isinstance(wrong, Rejected)
    assert wrong == unknown


def test_an_unknown_user_has_the_same_salt_each_time() -> None:
    first = client("eve", "x").first()
    assert server().respond(first, now_ms=0) == server().respond(first, now_ms=0)


def test_an_unknown_user_has_a_salt_for_each_mechanism_and_another_as_a_token() -> None:
    """As users have, whose name is no token's."""
    firsts = [
        ScramClient("eve", SaltedPasswords(SHA_256, "x"), nonce="n", by_token=by_token).first()
        for by_token in (False, True)
    ]
    told = {
        repr(server(mechanism).respond(first, now_ms=0))
        for mechanism in ScramMechanism
        for first in firsts
    }
    assert len(told) == 4


def test_a_proof_counts_for_one_exchange_only() -> None:
    one = client("alice", "wonderland")
    challenge = server(nonce="first").respond(one.first(), now_ms=0)
    assert isinstance(challenge, Challenge)
    final = one.respond(challenge.token)
    assert final is not None
    another = server(nonce="second")
    another.respond(one.first(), now_ms=0)
    assert isinstance(another.respond(final, now_ms=0), Rejected)


def test_channel_binding_cannot_be_stripped_on_the_way() -> None:
    one, other = client("alice", "wonderland"), server()
    challenge = other.respond(b"y" + one.first()[1:], now_ms=0)
    assert isinstance(challenge, Challenge)
    final = one.respond(challenge.token)
    assert final is not None
    assert isinstance(other.respond(final, now_ms=0), Rejected)


@pytest.mark.parametrize(
    "first",
    [
        b"p=tls-unique,,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=alice",
        b"n,,n=,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,r=x,other=1",
        b"n,,n=alice,r=" + b"x" * 2000,
        b"n,,n=" + b"a" * 9000 + b",r=x",
    ],
)
def test_first_messages_that_are_not_served_are_rejected(first: bytes) -> None:
    assert isinstance(server().respond(first, now_ms=0), Rejected)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=c2FsdA==,i=4096",
        b"r=client,s=c2FsdA==,i=4096",
        b"r=clientserver,s=c2FsdA==,i=1",
        b"r=clientserver,s=c2FsdA==,i=1000001",
        b"r=clientserver,s=====,i=4096",
        b"e=other-error",
        b"",
    ],
)
def test_a_client_refuses_a_challenge_that_no_server_sends(challenge: bytes) -> None:
    with pytest.raises(LoginRefused):
        client("alice", "wonderland").respond(challenge)


def test_a_client_is_not_complete_with_a_server_that_does_not_know_the_password() -> None:
    one, other = client("alice", "wonderland"), server()
    challenge = other.respond(one.first(), now_ms=0)
    assert isinstance(challenge, Challenge)
    one.respond(challenge.token)
    with pytest.raises(LoginRefused):
        one.respond(b"v=" + base64.b64encode(bytes(32)))
    assert not one.is_complete


def test_a_credential_shows_nothing_of_itself() -> None:
    shown = repr(CREDENTIALS[SHA_256]["alice"])
    assert shown == "ScramCredential(iterations=4096)"


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_make_it_fail_or_let_anyone_in(one: bytes, other: bytes) -> None:
    talk = server()
    step = talk.respond(one, now_ms=0)
    if isinstance(step, Challenge):
        step = talk.respond(other, now_ms=0)
    assert isinstance(step, Challenge | Rejected)


@given(st.from_regex(r"c=biws,r=clientserver(,[a-z]=[a-z]*)?,p=[A-Za-z0-9+/]{43}=", fullmatch=True))
def test_no_guessed_proof_lets_anyone_in(final: str) -> None:
    talk = server()
    talk.respond(client("alice", "?").first(), now_ms=0)
    assert isinstance(talk.respond(final.encode(), now_ms=0), Rejected)


def test_iterations_are_paid_once_for_each_salt() -> None:
    passwords = SaltedPasswords(SHA_256, "wonderland")
    first = passwords.with_salt(SALT, 4096)
    assert passwords.with_salt(SALT, 4096) is first
    assert passwords.with_salt(b"another", 4096) != first


def test_stored_keys_are_not_the_password() -> None:
    credential: ScramCredential = CREDENTIALS[SHA_256]["alice"]
    assert b"wonderland" not in credential.stored_key + credential.server_key
