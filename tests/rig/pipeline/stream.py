"""What flows through the pipeline: numbered records with keys, and what a worker makes of them.

Number n has the key n % KEYS. A key has one partition of the topic that is read and one of the
topic that is written; they are not the same, so that a transaction has several of either.
A worker writes of each number which attempt, of which life of which worker, brought it.
"""

from typing import NamedTuple

KEYS = 20
SOURCE, SINK = "source", "sink"
SOURCE_PARTITIONS, SINK_PARTITIONS = 4, 3


class Attempt(NamedTuple):
    """A transaction of a worker, by its number in the life of that worker."""

    life: str
    number: int


class Output(NamedTuple):
    number: int
    attempt: Attempt


def key_of(number: int) -> bytes:
    return b"%d" % (number % KEYS)


def source_partition_of(number: int) -> int:
    return number % KEYS % SOURCE_PARTITIONS


def sink_partition_of(key: bytes) -> int:
    return int(key) % SINK_PARTITIONS


def written(number: bytes, attempt: Attempt) -> bytes:
    return b"%b %b %d" % (number, attempt.life.encode(), attempt.number)


def read(value: bytes) -> Output:
    number, life, attempt = value.split()
    return Output(int(number), Attempt(life.decode(), int(attempt)))
