"""A pointer says where readers read, and only goes forward."""

import pytest

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.pipelines.replay.checkpoint_progress import parse_offsets
from penstock.spark.pipelines.replay.pointer import (
    BadPointer,
    Pointer,
    decode,
    encode,
    goes_forward,
)
from penstock.spark.pipelines.replay.views import behind


def pointer(version: int) -> Pointer:
    return Pointer(view="balances", version=version, topic=f"balances.v{version}")


def test_a_pointer_comes_back_as_it_was_written() -> None:
    assert decode(*encode(pointer(3))) == pointer(3)


def test_it_goes_forward_and_never_back() -> None:
    assert goes_forward(None, pointer(1))
    assert goes_forward(pointer(1), pointer(2))
    assert not goes_forward(pointer(2), pointer(2))
    assert not goes_forward(pointer(2), pointer(1))


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"7", b"{}", b'{"version": 0, "topic": "t"}', b'{"version": 1}']
)
def test_what_points_nowhere_is_refused(value: bytes) -> None:
    with pytest.raises(BadPointer, match="balances"):
        decode(b"balances", value)


def test_what_is_left_to_do_is_counted_over_partitions() -> None:
    reached = {TopicPartition("t", 0): Offset(5), TopicPartition("t", 1): Offset(9)}
    ends = {**reached, TopicPartition("t", 0): Offset(8), TopicPartition("t", 2): Offset(2)}
    assert behind(reached, ends) == 5
    assert behind(ends, reached) == 0


def test_how_far_a_query_has_come_is_the_last_line_of_its_batch() -> None:
    text = 'v1\n{"batchWatermarkMs":0}\n{"t": {"0": 12, "1": 0}}'
    assert parse_offsets(text) == {TopicPartition("t", 0): 12, TopicPartition("t", 1): 0}
