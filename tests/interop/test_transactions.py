"""Transactions of real clients: all or nothing, for readers of what is committed."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicPartition

from rig.apache_kafka.agent import KafkaAgent
from rig.clients.confluent import QUIET
from rig.serve import ServedNode

NUMBERS = itertools.count(1)
PATIENCE_SECONDS = 30.0
Topic = Callable[..., str]


class Transactional(Protocol):
    """A producer with a transactional id, of whichever client."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        """Returns when the record is written."""

    def send_offset(self, group: str, topic: str, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Confluent:
    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "retry.backoff.ms": 20,
            }
        )
        self._producer.init_transactions(PATIENCE_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._bootstrap, "log_level": QUIET, "group.id": group}
        )
        self._producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)],
            consumer.consumer_group_metadata(),
            PATIENCE_SECONDS,
        )
        consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_SECONDS)

    def close(self) -> None:
        del self._producer


class KafkaPython:
    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition).get(PATIENCE_SECONDS)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        where = kafka.TopicPartition(topic, 0)
        offsets = {where: kafka.OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class AioKafka:
    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer: Any = None

        async def start() -> None:
            self._producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await self._producer.start()

        self._loop.run_until_complete(start())

    def begin(self) -> None:
        self._loop.run_until_complete(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        sending = self._producer.send_and_wait(topic, value, partition=partition)
        self._loop.run_until_complete(sending)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._loop.run_until_complete(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._loop.run_until_complete(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run_until_complete(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run_until_complete(self._producer.stop())
        self._loop.close()


KINDS: dict[str, Callable[..., Transactional]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}
Make = Callable[..., Transactional]


@pytest.fixture(params=list(KINDS))
def producer(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Transactional]:
    one = KINDS[request.param](bootstrap, f"transactions-{next(NUMBERS)}")
    yield one
    one.close()


def read(bootstrap: str, topic: str, *, partitions: int = 1, committed: bool = True) -> list[bytes]:
    """All that a reader sees up to the end, partition after partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "none",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    consumer.assign([TopicPartition(topic, index, 0) for index in found])
    unfinished = set(found)
    while unfinished:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        if message.error() is not None:
            unfinished.discard(message.partition())
        else:
            found[message.partition() or 0].append(message.value() or b"")
    consumer.close()
    return [value for values in found.values() for value in values]


def test_what_is_committed_is_seen_as_a_whole(
    producer: Transactional, bootstrap: str, topic: Topic
) -> None:
    name = topic(partitions=2)
    producer.begin()
    producer.send(name, b"a", partition=0)
    producer.send(name, b"b", partition=1)
    assert read(bootstrap, name, partitions=2) == []
    assert read(bootstrap, name, partitions=2, committed=False) == [b"a", b"b"]
    producer.commit()
    assert read(bootstrap, name, partitions=2) == [b"a", b"b"]


def test_what_is_aborted_is_never_seen(
    producer: Transactional, bootstrap: str, topic: Topic
) -> None:
    name = topic(partitions=2)
    for number in range(6):
        producer.begin()
        producer.send(name, b"%d" % number, partition=0)
        producer.send(name, b"%d" % number, partition=1)
        if number % 2:
            producer.abort()
        else:
            producer.commit()
    assert read(bootstrap, name, partitions=2) == [b"0", b"2", b"4"] * 2


def test_a_newer_instance_fences_the_older_one(bootstrap: str, topic: Topic) -> None:
    name = topic()
    older = Confluent(bootstrap, "fenced")
    older.begin()
    older.send(name, b"lost")
    newer = Confluent(bootstrap, "fenced")
    with pytest.raises(confluent_kafka.KafkaException):
        older.commit()
    newer.begin()
    newer.send(name, b"kept")
    newer.commit()
    assert read(bootstrap, name) == [b"kept"]
    older.close()
    newer.close()


def test_what_is_left_open_too_long_is_aborted(bootstrap: str, topic: Topic) -> None:
    name = topic()
    slow = Confluent(bootstrap, "too-slow", timeout_ms=1000)
    quick = Confluent(bootstrap, "quick")
    slow.begin()
    slow.send(name, b"lost")
    quick.begin()
    quick.send(name, b"kept")
    quick.commit()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (seen := read(bootstrap, name)) and time.monotonic() < deadline:
        continue
    assert seen == [b"kept"]
    with pytest.raises(confluent_kafka.KafkaException):
        slow.commit()
    slow.close()
    quick.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "log_level": QUIET, "group.id": group}
    )
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_SECONDS)
    consumer.close()
    return int(found.offset)


def test_offsets_are_committed_with_their_transaction_or_not_at_all(
    producer: Transactional, bootstrap: str, topic: Topic
) -> None:
    name, group = topic(), f"group-{next(NUMBERS)}"
    for offset, commits in ((5, False), (7, True), (9, False)):
        producer.begin()
        producer.send(name, b"%d" % offset)
        producer.send_offset(group, name, offset)
        if commits:
            producer.commit()
        else:
            producer.abort()
    assert committed(bootstrap, group, name) == 7


def test_a_consumer_waits_for_offsets_of_an_open_transaction(bootstrap: str, topic: Topic) -> None:
    name, group = topic(), f"group-{next(NUMBERS)}"
    producer = Confluent(bootstrap, "pending-offsets")
    producer.begin()
    producer.send(name, b"one")
    producer.send_offset(group, name, 1)
    with pytest.raises(confluent_kafka.KafkaException):
        committed_at_once(bootstrap, group, name)
    producer.commit()
    assert committed(bootstrap, group, name) == 1
    producer.close()


def committed_at_once(bootstrap: str, group: str, topic: str) -> None:
    """Raises when the offset is not known yet."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": group,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.committed([TopicPartition(topic, 0)], timeout=2)
    finally:
        consumer.close()


def test_the_java_producer_writes_in_transactions(
    kafka_agent: KafkaAgent, bootstrap: str, topic: Topic
) -> None:
    name = topic(partitions=2)
    run = kafka_agent.run_tool(
        "kafka-producer-perf-test",
        "--bootstrap-server", bootstrap, "--topic", name, "--num-records", "500",
        "--record-size", "10", "--throughput", "-1", "--transactional-id", "java",
        "--transaction-duration-ms", "20",
    )  # fmt: skip
    assert run.status == 0, run.output
    assert len(read(bootstrap, name, partitions=2)) == 500


def test_transactions_outlive_a_kill_of_the_node(tmp_path: Path) -> None:
    node = ServedNode(
        data=tmp_path / "node",
        settings={"transaction.state.log.num.partitions": "3", "num.partitions": "1"},
    )
    node.start()
    first, second = Confluent(node.bootstrap, "first"), Confluent(node.bootstrap, "second")
    first.begin()
    first.send("t", b"one")
    first.commit()
    first.begin()
    first.send("t", b"two")
    first.send_offset("group", "t", 2)
    second.begin()
    second.send("t", b"lost")
    second.send_offset("other", "t", 1)
    node.kill()
    node.start()
    assert read(node.bootstrap, "t") == [b"one"]
    first.send("t", b"three")
    first.commit()
    assert committed(node.bootstrap, "group", "t") == 2
    successor = Confluent(node.bootstrap, "second")
    successor.begin()
    successor.send("t", b"four")
    successor.commit()
    assert read(node.bootstrap, "t") == [b"one", b"two", b"three", b"four"]
    node.kill()
    node.start()
    assert committed(node.bootstrap, "group", "t") == 2
    assert committed(node.bootstrap, "other", "t") < 0
    for one in (first, second, successor):
        one.close()
    assert node.stop() == 0
