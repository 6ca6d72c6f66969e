"""A topic's name becomes a directory's: what could leave its place is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.topic_name import collision_key, topic_name_error


@pytest.mark.parametrize("name", ["orders", "a.b_c-d", "__consumer_offsets", "x" * 249, "..."])
def test_ordinary_names_are_fine(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../etc", "a b", "ü", "a\n", "x" * 250, "a\x00", "a:b"]
)
def test_names_that_could_do_harm_are_refused(name: str) -> None:
    assert topic_name_error(name) is not None


@given(st.text())
def test_no_accepted_name_leaves_its_directory(name: str) -> None:
    if topic_name_error(name) is None:
        assert "/" not in name
        assert name not in (".", "..")
        assert name.isascii()


def test_names_that_metrics_cannot_tell_apart_share_a_key() -> None:
    assert collision_key("a.b") == collision_key("a_b") != collision_key("a-b")
