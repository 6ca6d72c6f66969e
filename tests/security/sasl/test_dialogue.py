"""The order of SASL requests, and what breaks it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.error import ErrorCode
from penstock.model.sasl import Mechanism
from penstock.security.principal import Principal
from penstock.security.sasl.dialogue import Dialogue, DialogueState, Login, session_lifetime_ms
from penstock.security.sasl.plain import PlainServer

ALICE = b"\0alice\0wonderland"
EXCHANGES = {Mechanism.PLAIN: lambda: PlainServer({"alice": "wonderland", "bob": "b"})}


def test_handshake_and_token_make_a_login() -> None:
    dialogue = Dialogue(EXCHANGES)
    handshake = dialogue.handshake("PLAIN")
    assert (handshake.code, handshake.mechanisms) == (ErrorCode.NONE, (Mechanism.PLAIN,))
    answer = dialogue.token(ALICE, now_ms=0)
    assert answer.login == Login(
        principal=Principal("User", "alice"), mechanism=Mechanism.PLAIN, expires_ms=None
    )
    assert dialogue.state is DialogueState.DONE


def test_a_mechanism_that_is_not_offered_ends_it_with_those_that_are() -> None:
    dialogue = Dialogue(EXCHANGES)
    answer = dialogue.handshake("SCRAM-SHA-256")
    assert answer.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == (Mechanism.PLAIN,)
    assert dialogue.state is DialogueState.FAILED


def test_a_token_before_the_handshake_is_illegal() -> None:
    dialogue = Dialogue(EXCHANGES)
    assert dialogue.token(ALICE, now_ms=0).code == ErrorCode.ILLEGAL_SASL_STATE
    assert dialogue.state is DialogueState.FAILED


def test_a_second_handshake_is_illegal() -> None:
    dialogue = Dialogue(EXCHANGES)
    dialogue.handshake("PLAIN")
    assert dialogue.handshake("PLAIN").code == ErrorCode.ILLEGAL_SASL_STATE
    assert dialogue.state is DialogueState.FAILED


def test_a_wrong_password_is_told_without_saying_which_part_was_wrong() -> None:
    dialogue = Dialogue(EXCHANGES)
    dialogue.handshake("PLAIN")
    answer = dialogue.token(b"\0alice\0wrong", now_ms=0)
    assert answer.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.message == "Authentication failed: Invalid username or password"
    assert dialogue.state is DialogueState.FAILED


@pytest.mark.parametrize(
    ("token", "state"), [(ALICE, DialogueState.DONE), (b"\0bob\0b", DialogueState.FAILED)]
)
def test_who_authenticates_again_stays_the_same_user(token: bytes, state: DialogueState) -> None:
    first = Dialogue(EXCHANGES)
    first.handshake("PLAIN")
    again = Dialogue(EXCHANGES, before=first.token(ALICE, now_ms=0).login)
    again.handshake("PLAIN")
    again.token(token, now_ms=0)
    assert again.state is state


@given(st.lists(st.one_of(st.sampled_from(["PLAIN", "GSSAPI", ""]), st.just(ALICE), st.binary())))
def test_nobody_is_let_in_but_by_handshake_and_password(steps: list[str | bytes]) -> None:
    dialogue = Dialogue(EXCHANGES)
    taken: list[str | bytes] = []
    for step in steps:
        if dialogue.is_over:
            break
        taken.append(step)
        if isinstance(step, str):
            dialogue.handshake(step)
        else:
            dialogue.token(step, now_ms=0)
    assert (dialogue.state is DialogueState.DONE) == (taken == ["PLAIN", ALICE])


@pytest.mark.parametrize(
    ("expires_ms", "bound_ms", "lifetime_ms"),
    [
        (None, 0, None),
        (None, 500, 500),
        (1_300, 0, 300),
        (1_300, 500, 300),
        (1_900, 500, 500),
        (900, 0, 0),
    ],
)
def test_a_session_lasts_as_long_as_setting_and_credentials_allow(
    expires_ms: int | None, bound_ms: int, lifetime_ms: int | None
) -> None:
    found = session_lifetime_ms(
        expires_ms=expires_ms, reauthentication_ms_max=bound_ms, now_ms=1_000
    )
    assert found == lifetime_ms
