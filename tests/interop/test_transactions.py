"""Transactions of real clients: all or nothing, for readers of what is committed."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from rig.apache_kafka.agent import KafkaAgent
from rig.clients.confluent import QUIET
from rig.serve import ServedNode
from rig.transactional.confluent import ConfluentProducer, ConfluentTransactions
from rig.transactional.interface import (
    Fenced,
    NothingOpen,
    Transactional,
    TransactionalClient,
    await_that,
)
from rig.transactional.java import JavaTransactions
from rig.transactional.looking import committed_offset, read

NUMBERS = itertools.count(1)
TIMEOUT_MS = 3000
Topic = Callable[..., str]


@pytest.fixture
def producer(transactions: TransactionalClient, bootstrap: str) -> Iterator[Transactional]:
    with closing(transactions.producer(bootstrap, f"transactions-{next(NUMBERS)}")) as one:
        yield one


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


def test_a_newer_instance_fences_the_older_one(
    transactions: TransactionalClient, bootstrap: str, topic: Topic
) -> None:
    name, transactional_id = topic(), f"fenced-{next(NUMBERS)}"
    older = transactions.producer(bootstrap, transactional_id)
    older.begin()
    older.send(name, b"lost")
    newer = transactions.producer(bootstrap, transactional_id)
    with pytest.raises(Fenced):
        older.commit()
    newer.begin()
    newer.send(name, b"kept")
    newer.commit()
    assert read(bootstrap, name) == [b"kept"]
    older.close()
    newer.close()


def test_what_is_left_open_too_long_is_aborted(
    transactions: TransactionalClient, bootstrap: str, topic: Topic
) -> None:
    name, transactional_id = topic(), f"too-slow-{next(NUMBERS)}"
    slow = transactions.producer(bootstrap, transactional_id, timeout_ms=TIMEOUT_MS)
    quick = ConfluentProducer(bootstrap, f"quick-{next(NUMBERS)}")
    slow.begin()
    slow.send(name, b"lost")
    quick.begin()
    quick.send(name, b"kept")
    quick.commit()
    await_that(lambda: read(bootstrap, name) == [b"kept"], "the slow one is out of the way")
    with pytest.raises((Fenced, NothingOpen)):
        slow.commit()
    slow.close()
    with closing(transactions.producer(bootstrap, transactional_id)) as successor:
        successor.begin()
        successor.send(name, b"in time")
        successor.commit()
    assert read(bootstrap, name) == [b"kept", b"in time"]
    quick.close()


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
    assert committed_offset(bootstrap, group, name) == 7


def test_a_consumer_waits_for_offsets_of_an_open_transaction(
    producer: Transactional, bootstrap: str, topic: Topic
) -> None:
    name, group = topic(), f"group-{next(NUMBERS)}"
    producer.begin()
    producer.send(name, b"one")
    producer.send_offset(group, name, 1)
    with pytest.raises(confluent_kafka.KafkaException):
        committed_at_once(bootstrap, group, name)
    producer.commit()
    assert committed_offset(bootstrap, group, name) == 1


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
        consumer.committed([TopicPartition(topic, 0)], timeout=0.5)
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


def test_each_transaction_of_generation_2_has_an_epoch_of_its_own(
    kafka_agent: KafkaAgent, bootstrap: str, topic: Topic
) -> None:
    name = topic()
    clients: list[tuple[TransactionalClient, int]] = [
        (ConfluentTransactions(), 0),
        (JavaTransactions(kafka_agent), 3),
    ]
    for client, epoch in clients:
        with closing(client.producer(bootstrap, f"epochs-{client.name}")) as one:
            for number in range(3):
                one.begin()
                one.send(name, b"%d" % number)
                one.commit()
        found = kafka_agent.ask(
            "producer_epoch", bootstrap=bootstrap, transactional_id=f"epochs-{client.name}"
        )
        assert found == epoch


@pytest.mark.parametrize("transactions", ["confluent-kafka", "java"], indirect=True)
def test_transactions_outlive_a_kill_of_the_node(
    transactions: TransactionalClient, tmp_path: Path
) -> None:
    node = ServedNode(
        data=tmp_path / "node",
        settings={"transaction.state.log.num.partitions": "3", "num.partitions": "1"},
    )
    node.start()
    first = transactions.producer(node.bootstrap, "first")
    second = transactions.producer(node.bootstrap, "second")
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
    assert committed_offset(node.bootstrap, "group", "t") == 2
    successor = transactions.producer(node.bootstrap, "second")
    successor.begin()
    successor.send("t", b"four")
    successor.commit()
    assert read(node.bootstrap, "t") == [b"one", b"two", b"three", b"four"]
    node.kill()
    node.start()
    assert committed_offset(node.bootstrap, "group", "t") == 2
    assert committed_offset(node.bootstrap, "other", "t") < 0
    for one in (first, second, successor):
        one.close()
    assert node.stop() == 0
