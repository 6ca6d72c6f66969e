"""Readers of what is committed see nothing open or aborted, in the log's order, soon."""

import itertools
import random
from collections.abc import Callable
from contextlib import ExitStack, closing

import confluent_kafka
import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.clients.confluent import QUIET
from rig.transactional.aio_kafka import AioKafkaTransactions
from rig.transactional.confluent import ConfluentProducer, ConfluentTransactions
from rig.transactional.interface import PATIENCE_SECONDS, Transactional, TransactionalClient, take
from rig.transactional.java import JavaTransactions
from rig.transactional.kafka_python import KafkaPythonTransactions
from rig.transactional.looking import read

NUMBERS = itertools.count(1)
STEPS = 120
Topic = Callable[..., str]


def test_a_reader_is_held_back_by_the_oldest_open_transaction_alone(
    transactions: TransactionalClient, bootstrap: str, topic: Topic
) -> None:
    name = topic()
    with ExitStack() as opened:
        slow = opened.enter_context(closing(producer(bootstrap)))
        slower = opened.enter_context(closing(producer(bootstrap)))
        quick = opened.enter_context(closing(producer(bootstrap)))
        reader = opened.enter_context(closing(transactions.reader(bootstrap, name)))
        commit(quick, name, b"before")
        slow.begin()
        slow.send(name, b"slow")
        commit(quick, name, b"behind slow")
        slower.begin()
        slower.send(name, b"slower")
        commit(quick, name, b"behind both")
        assert take(reader, 1) == [b"before"]
        assert reader.poll() == []
        slow.commit()
        assert take(reader, 2) == [b"slow", b"behind slow"]
        assert reader.poll() == []
        slower.abort()
        assert take(reader, 1) == [b"behind both"]


def test_a_reader_is_not_held_back_by_other_partitions(
    transactions: TransactionalClient, bootstrap: str, topic: Topic
) -> None:
    name = topic(partitions=2)
    with (
        closing(producer(bootstrap)) as slow,
        closing(producer(bootstrap)) as quick,
        closing(transactions.reader(bootstrap, name)) as reader,
    ):
        slow.begin()
        slow.send(name, b"open", partition=1)
        commit(quick, name, b"free")
        assert take(reader, 1) == [b"free"]
        slow.commit()


@pytest.mark.parametrize("seed", range(2))
def test_readers_of_every_kind_see_the_commits_of_every_kind_in_order(
    kafka_agent: KafkaAgent, bootstrap: str, topic: Topic, seed: int
) -> None:
    """At random, producers begin, write, commit and abort, one plain producer writes in between."""
    name, chance = topic(), random.Random(seed)
    kinds: list[TransactionalClient] = [
        ConfluentTransactions(),
        KafkaPythonTransactions(),
        AioKafkaTransactions(),
        JavaTransactions(kafka_agent),
    ]
    with ExitStack() as opened:
        readers = [opened.enter_context(closing(kind.reader(bootstrap, name))) for kind in kinds]
        seen: list[list[bytes]] = [[] for _ in readers]
        story = Story(bootstrap, name, chance, kinds, opened)
        for step in range(STEPS):
            story.step()
            if step % 10 == 0:
                for reader, values in zip(readers, seen, strict=True):
                    values += reader.poll()
                    assert set(values) <= story.committed
        story.end()
        stored = read(bootstrap, name, committed=False)
        wanted = [value for value in stored if value in story.committed]
        assert len(wanted) == len(story.committed) < len(stored)
        for reader, values in zip(readers, seen, strict=True):
            assert values + take(reader, len(wanted) - len(values)) == wanted


class Story:
    """Who wrote what, and which of it was ever decided to be seen."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        chance: random.Random,
        kinds: list[TransactionalClient],
        opened: ExitStack,
    ) -> None:
        self.committed: set[bytes] = set()
        self._topic = topic
        self._chance = chance
        self._plain = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "log_level": QUIET, "enable.idempotence": True}
        )
        self._producers = [
            opened.enter_context(
                closing(kind.producer(bootstrap, f"reading-{kind.name}-{next(NUMBERS)}"))
            )
            for kind in kinds
        ]
        self._open: dict[int, list[bytes]] = {}

    def step(self) -> None:
        index = self._chance.randrange(len(self._producers))
        match self._chance.choice(("write", "write", "commit", "abort", "plain")):
            case "write":
                self._write(index)
            case "plain":
                self._write_plainly()
            case ending if index in self._open:
                self._end(index, commits=ending == "commit")

    def end(self) -> None:
        """Whoever is still at work commits or aborts; one value stands behind them all."""
        for index in sorted(self._open):
            self._end(index, commits=index % 2 == 0)
        self._write_plainly()

    def _write(self, index: int) -> None:
        producer, value = self._producers[index], b"%d" % next(NUMBERS)
        if index not in self._open:
            producer.begin()
            self._open[index] = []
        producer.send(self._topic, value)
        self._open[index].append(value)

    def _write_plainly(self) -> None:
        value = b"plain %d" % next(NUMBERS)
        self.committed.add(value)
        self._plain.produce(self._topic, value, partition=0)
        assert self._plain.flush(PATIENCE_SECONDS) == 0

    def _end(self, index: int, *, commits: bool) -> None:
        values = self._open.pop(index)
        if commits:
            self.committed.update(values)
            self._producers[index].commit()
        else:
            self._producers[index].abort()


def producer(bootstrap: str) -> Transactional:
    return ConfluentProducer(bootstrap, f"reading-{next(NUMBERS)}")


def commit(producer: Transactional, topic: str, value: bytes) -> None:
    producer.begin()
    producer.send(topic, value)
    producer.commit()
