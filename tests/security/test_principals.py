"""Principals are written as Kafka writes them."""

import pytest

from penstock.security.principal import ANONYMOUS, InvalidPrincipal, Principal


def test_a_principal_is_read_as_it_is_written() -> None:
    alice = Principal("User", "alice")
    assert str(alice) == "User:alice"
    assert Principal.parse("User:alice") == alice


def test_a_name_may_contain_colons() -> None:
    assert Principal.parse("User:CN=a:b,O=c") == Principal("User", "CN=a:b,O=c")


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_a_text_without_kind_or_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidPrincipal):
        Principal.parse(text)


def test_a_client_that_has_not_authenticated_is_anonymous() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
