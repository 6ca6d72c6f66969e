"""JAAS lines, as Kafka's settings hold them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.sasl.jaas import parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_users_and_the_own_login_are_read() -> None:
    entry = parse_jaas(
        f'{MODULE} required username="admin" password="a;b" \n user_admin="a;b" user_al="it\'s";'
    )
    assert entry.module == "PlainLoginModule"
    assert entry.options["username"] == "admin"
    assert entry.users == {"admin": "a;b", "al": "it's"}


def test_quotes_and_backslashes_are_escaped_by_a_backslash() -> None:
    entry = parse_jaas(r"""M required password="a\"b\\c" other='x"y' bare=1;""")
    assert entry.options == {"password": 'a"b\\c', "other": 'x"y', "bare": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        f'{MODULE} required username="secret"',
        f'{MODULE} username="secret";',
        f'{MODULE} maybe username="secret";',
        f'{MODULE} required username="secret" username="secret";',
        f'{MODULE} required username="secret;',
        f'{MODULE} required username="secret"; more;',
        f'{MODULE} required username="secret" word;',
        f'{MODULE} required user name="secret";',
    ],
)
def test_anything_else_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)


def test_options_are_not_shown() -> None:
    assert "secret" not in repr(parse_jaas('M required password="secret";'))


@given(st.text(max_size=100))
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_jaas(text)


@given(st.text(min_size=1))
def test_every_password_can_be_written(password: str) -> None:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'M required password="{escaped}";').options["password"] == password
