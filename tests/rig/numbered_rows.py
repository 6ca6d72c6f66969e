"""What goes through a query of the tests: numbered rows with keys, and whether each came out once.

Number n has the key n % KEYS, and so one partition of the topic that is read and one of the topic
that is written. What comes out is read by confluent-kafka, which knows nothing of Spark or of us.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.cli.connect import with_cluster
from penstock.client.admin.transaction_listing import (
    OPEN_STATES,
    ListedTransaction,
    Wanted,
    list_transactions,
)
from penstock.client.network.cluster import Cluster
from rig.clients.confluent import QUIET, ConfluentClient

KEYS = 12
PATIENCE_SECONDS = 120.0


class Row(NamedTuple):
    partition: int
    offset: int
    key: bytes
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Everything but `rows` is zero or empty where rows were written exactly once."""

    rows: int
    duplicates: int
    missing: int
    foreign: int  # numbers that never went in, or with a wrong key
    out_of_order: int  # of a key
    open_transactions: tuple[str, ...]

    @property
    def faults(self) -> dict[str, object]:
        counts: dict[str, object] = {
            "duplicates": self.duplicates,
            "missing": self.missing,
            "foreign": self.foreign,
            "out of order": self.out_of_order,
            "open transactions": self.open_transactions,
        }
        return {what: count for what, count in counts.items() if count}


def key_of(number: int) -> bytes:
    return b"%d" % (number % KEYS)


def write_numbers(bootstrap: str, topic: str, numbers: Iterable[int]) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": QUIET, "enable.idempotence": True}
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    partitions = 0
    while not partitions:  # a broker may not have heard yet of a topic that was just made
        assert time.monotonic() < deadline, f"topic {topic} does not appear"
        told = producer.list_topics(topic, timeout=PATIENCE_SECONDS)
        partitions = len(told.topics[topic].partitions)
    for number in numbers:
        partition = number % KEYS % partitions
        producer.produce(topic, b"%d" % number, key_of(number), partition=partition)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def make_topics(bootstrap: str, *topics: str, partitions: int) -> None:
    client = ConfluentClient(bootstrap)
    for topic in topics:
        client.create_topic(topic, partitions=partitions)
    client.close()


def judge_topic(bootstrap: str, topic: str, *, count: int, ids: str = "") -> Judgement:
    """What stands in a topic now, where the numbers up to `count` were to be carried, and which
    transactions are open whose ids begin so.
    """
    left = [one for one in open_transactions(bootstrap) if one.startswith(ids)]
    return judge(read_committed(bootstrap, topic), count=count, open_transactions=left)


def judge(rows: Sequence[Row], *, count: int, open_transactions: Sequence[str] = ()) -> Judgement:
    times = Counter(row.number for row in rows)
    last: dict[bytes, int] = {}
    out_of_order = 0
    for row in sorted(rows):
        out_of_order += row.number < last.get(row.key, -1)
        last[row.key] = row.number
    return Judgement(
        rows=len(rows),
        duplicates=len(rows) - len(times),
        missing=sum(number not in times for number in range(count)),
        foreign=sum(not 0 <= row.number < count or row.key != key_of(row.number) for row in rows),
        out_of_order=out_of_order,
        open_transactions=tuple(open_transactions),
    )


def read_committed(bootstrap: str, topic: str) -> list[Row]:
    """All that stands in a topic and is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )
    partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    rows: list[Row] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, f"read {len(rows)} and came to no end"
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            rows.append(row_of(message))
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)
    consumer.close()
    return rows


def row_of(message: confluent_kafka.Message) -> Row:
    key, value = message.key(), message.value()
    partition, offset = message.partition(), message.offset()
    assert isinstance(key, bytes) and isinstance(value, bytes)
    assert partition is not None and offset is not None
    return Row(partition, offset, key, int(value))


def open_transactions(bootstrap: str) -> list[str]:
    """The transactional ids that have one open, as `penstock transactions list` tells them."""

    async def listed(cluster: Cluster) -> list[ListedTransaction]:
        return await list_transactions(cluster, Wanted(states=OPEN_STATES))

    return [one.transactional_id for one in with_cluster(bootstrap, listed)]
