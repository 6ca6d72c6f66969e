"""aiokafka speaks the oldest versions, some unknown to kio: it reads ours and writes them back."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Message, Struct

PHASES = (Phase.generate, Phase.shrink)  # explaining a difference would take minutes


def test_aiokafka_and_we_read_each_other(
    message: type[Message],
    version: int,
    aiokafka: Any,
    filled: Callable[[type[Message], int], SearchStrategy[Message]],
) -> None:
    @settings(max_examples=8, deadline=None, database=None, phases=PHASES)
    @given(original=filled(message, version))
    def agree(original: Message) -> None:
        data = encode(original, version)
        stream = BytesIO(data)
        theirs = aiokafka.decode(stream)
        assert stream.tell() == len(data)
        assert list(leaves_of_aiokafka(theirs)) == list(leaves(original, version))
        assert theirs.encode() == data
        back = decode_exact(message, version, memoryview(theirs.encode()))
        assert list(leaves(back, version)) == list(leaves(original, version))

    agree()


def leaves(value: object, version: int) -> Iterator[object]:
    """The simple values of a message in the order in which they travel."""
    if isinstance(value, Struct):
        for field in value.FIELDS:
            if version in field.versions:
                yield from leaves(getattr(value, field.name), version)
    elif isinstance(value, list):
        yield len(value)
        for item in value:
            yield from leaves(item, version)
    else:
        yield bytes(value) if isinstance(value, memoryview) else value


def leaves_of_aiokafka(value: Any) -> Iterator[object]:
    if hasattr(value, "SCHEMA"):
        for name in value.SCHEMA.names:
            yield from leaves_of_aiokafka(getattr(value, name))
    elif isinstance(value, list):
        yield len(value)
        for item in value:
            yield from leaves_of_aiokafka(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from leaves_of_aiokafka(item)
    elif not isinstance(value, dict):  # tagged fields, of which aiokafka knows none
        yield value
