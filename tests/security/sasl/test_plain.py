"""PLAIN: one token, one verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.sasl.exchange import Accepted, Rejected
from penstock.security.sasl.plain import PlainClient, PlainServer

PASSWORDS = {"alice": "wonder land=1", "bob": "büro"}
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(("user", "password"), PASSWORDS.items())
def test_a_user_with_its_password_is_accepted(user: str, password: str) -> None:
    token = PlainClient(user, password).first()
    assert PlainServer(PASSWORDS).respond(token, now_ms=0) == Accepted(user=user)


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0wrong",
        b"\0alice\0wonder land=1x",
        b"\0Alice\0wonder land=1",
        b"\0nobody\0wonder land=1",
        b"bob\0alice\0wonder land=1",
        b"\0alice\0",
        b"\0\0wonder land=1",
        b"alice\0wonder land=1",
        b"\0alice\0wonder land=1\0",
        b"\0alice\0\xff\xfe",
        b"",
    ],
)
def test_anything_else_is_rejected_without_a_word_of_it(token: bytes) -> None:
    verdict = PlainServer(PASSWORDS).respond(token, now_ms=0)
    assert isinstance(verdict, Rejected)
    assert "wonder" not in verdict.reason
    assert "alice" not in verdict.reason


def test_an_unknown_user_and_a_wrong_password_are_told_apart_by_nobody() -> None:
    unknown = PlainServer(PASSWORDS).respond(b"\0eve\0secret", now_ms=0)
    wrong = PlainServer(PASSWORDS).respond(b"\0alice\0secret", now_ms=0)
    assert unknown == wrong


@given(st.dictionaries(words, words, min_size=1), words, words)
def test_only_the_password_of_the_user_opens(
    passwords: dict[str, str], user: str, password: str
) -> None:
    verdict = PlainServer(passwords).respond(PlainClient(user, password).first(), now_ms=0)
    assert isinstance(verdict, Accepted) == (passwords.get(user) == password)


@given(st.binary())
def test_no_bytes_make_it_fail(token: bytes) -> None:
    assert isinstance(PlainServer(PASSWORDS).respond(token, now_ms=0), Accepted | Rejected)
