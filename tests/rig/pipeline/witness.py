"""A reader of what is committed that reads all the time, and remembers what it saw and when."""

import threading
import time
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, TopicPartition

from rig.clients.confluent import QUIET
from rig.pipeline.stream import SINK, SINK_PARTITIONS, Attempt, read

PATIENCE_SECONDS = 120.0


class Seen(NamedTuple):
    """A record of the sink, and when it was seen, by the machine's monotonic clock."""

    partition: int
    offset: int
    key: bytes
    number: int
    attempt: Attempt
    at_ns: int


class Witness:
    """Reads on a thread of its own, through whatever happens to the node, until `close`."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: list[Seen] = []
        self._bootstrap = bootstrap
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="witness")
        self._thread.start()

    @property
    def distinct(self) -> int:
        """How many of the numbers were seen."""
        return self._distinct

    def close(self) -> None:
        self._closing = True
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        self._distinct = 0
        numbers: set[int] = set()
        consumer = sink_reader(self._bootstrap, committed=True)
        while not self._closing:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.seen.append(seen_of(message))
                numbers.add(self.seen[-1].number)
                self._distinct = len(numbers)
        consumer.close()


def read_sink(bootstrap: str, *, committed: bool) -> list[Seen]:
    """All that stands in the sink now, or all of it that is committed."""
    consumer = sink_reader(bootstrap, committed=committed)
    found: list[Seen] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < SINK_PARTITIONS:
        assert time.monotonic() < deadline, f"read {len(found)} and came to no end"
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(seen_of(message))
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)
    consumer.close()
    return found


def sink_reader(bootstrap: str, *, committed: bool) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "none",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(SINK, index, 0) for index in range(SINK_PARTITIONS)])
    return consumer


def seen_of(message: confluent_kafka.Message) -> Seen:
    at_ns = time.monotonic_ns()
    key, value = message.key(), message.value()
    partition, offset = message.partition(), message.offset()
    assert isinstance(key, bytes) and isinstance(value, bytes)
    assert partition is not None and offset is not None
    output = read(value)
    return Seen(partition, offset, key, output.number, output.attempt, at_ns)
