"""Keys land where the Java client puts them; records without one are spread."""

from collections import Counter

import pytest

from penstock.client.produce.partitioner import (
    Custom,
    RoundRobin,
    Sticky,
    partition_of_key,
)
from penstock.records.write import murmur2


# The values that Apache Kafka's own test of its hash expects.
@pytest.mark.parametrize(
    ("key", "signed_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_that_of_the_java_client(key: bytes, signed_hash: int) -> None:
    assert murmur2(key) == signed_hash & 0xFFFFFFFF


def test_key_keeps_its_partition_whatever_the_partitioner() -> None:
    expected = partition_of_key(b"order-17", 12)
    for partitioner in (Sticky(start=5), RoundRobin()):
        for _ in range(3):
            chosen = partitioner.choose(topic="t", key=b"order-17", value=None, count=12)
            assert chosen == expected


def test_round_robin_takes_turns() -> None:
    partitioner = RoundRobin()
    chosen = [partitioner.choose(topic="t", key=None, value=b"", count=3) for _ in range(6)]
    assert chosen == [0, 1, 2, 0, 1, 2]


def test_sticky_stays_until_its_batch_is_complete_and_is_fair_over_time() -> None:
    partitioner = Sticky(start=1)
    chosen: Counter[int] = Counter()
    for _ in range(8):
        first = partitioner.choose(topic="t", key=None, value=b"", count=4)
        again = partitioner.choose(topic="t", key=None, value=b"", count=4)
        assert first == again
        chosen[first] += 1
        partitioner.batch_closed("t", (first + 1) % 4)  # another partition's batch changes nothing
        assert partitioner.choose(topic="t", key=None, value=b"", count=4) == first
        partitioner.batch_closed("t", first)
    assert chosen == {0: 2, 1: 2, 2: 2, 3: 2}


def test_function_of_the_users_own_decides() -> None:
    partitioner = Custom(lambda key, value, count: len(value or b"") % count)
    assert partitioner.choose(topic="t", key=None, value=b"12345", count=3) == 2


def test_function_that_names_no_partition_is_refused() -> None:
    partitioner = Custom(lambda key, value, count: count)
    with pytest.raises(ValueError, match="chose 3"):
        partitioner.choose(topic="t", key=None, value=None, count=3)
