"""`server.properties`, as people write it."""

from pathlib import Path

import pytest

from penstock.world.properties import BadProperties, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b c  ", {"a": "b c"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("# a=b\n! a=b\n\n", {}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n   c", {"a": "b,c"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u0041\\t", {"a": "A"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=", {"a": ""}),
        ("a=C:\\\\x", {"a": "C:\\x"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["=b", "a=\\uXYZW"])
def test_line_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadProperties):
        parse_properties(text)


def test_file_is_read_in_the_encoding_of_java(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"# caf\xe9\r\nbroker.rack=caf\xe9\x85x\rnode.id=1\n")
    assert read_properties(file) == {"broker.rack": "café\x85x", "node.id": "1"}
