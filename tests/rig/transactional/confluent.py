"""Transactions of confluent-kafka, which is librdkafka: generation 1 of the protocol."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from rig.clients.confluent import QUIET
from rig.transactional.interface import (
    PATIENCE_SECONDS,
    TRANSACTION_MS,
    Fenced,
    GroupWentOn,
    Reads,
    Transactional,
)

POLL_SECONDS = 0.1
GROUP_WENT_ON = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.STALE_MEMBER_EPOCH}
)


class ConfluentTransactions:
    name = "confluent-kafka"

    def producer(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> Transactional:
        return ConfluentProducer(bootstrap, transactional_id, timeout_ms=timeout_ms)

    def reader(self, bootstrap: str, topic: str) -> Reads:
        consumer = committed_consumer(bootstrap, group="none")
        consumer.assign([TopicPartition(topic, 0, 0)])
        return ConfluentConsumer(consumer)

    def member(self, bootstrap: str, topic: str, *, group: str, protocol: str) -> Reads:
        consumer = committed_consumer(bootstrap, group=group, **{"group.protocol": protocol})
        consumer.subscribe([topic])
        return ConfluentConsumer(consumer)


class ConfluentProducer:
    def __init__(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "retry.backoff.ms": 20,
                # Else it may forget the coordinator of a group while the broker restarts, for ever.
                "metadata.recovery.strategy": "none",
            }
        )
        self._producer.init_transactions(PATIENCE_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = committed_consumer(self._bootstrap, group=group)
        self._send_offsets([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata())
        consumer.close()

    def send_offsets_of(self, member: Reads) -> None:
        assert isinstance(member, ConfluentConsumer)
        self._send_offsets(member.positions, member.group)

    def commit(self) -> None:
        with told_plainly():
            self._producer.commit_transaction(PATIENCE_SECONDS)

    def abort(self) -> None:
        with told_plainly():
            self._producer.abort_transaction(PATIENCE_SECONDS)

    def close(self) -> None:
        del self._producer

    def _send_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        with told_plainly():
            self._producer.send_offsets_to_transaction(offsets, group, PATIENCE_SECONDS)


class ConfluentConsumer:
    """Knows its group and how far it has read, still after it has left."""

    def __init__(self, consumer: confluent_kafka.Consumer) -> None:
        self._consumer = consumer
        self.positions: list[TopicPartition] = []
        self.group: Any = None

    def poll(self) -> list[bytes]:
        values = []
        for message in self._consumer.consume(100, POLL_SECONDS):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        if values:
            self.positions = self._consumer.position(self._consumer.assignment())
            self.group = self._consumer.consumer_group_metadata()
        return values

    def close(self) -> None:
        self._consumer.close()


def committed_consumer(bootstrap: str, *, group: str, **settings: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )


@contextmanager
def told_plainly() -> Iterator[None]:
    try:
        yield
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() == KafkaError._FENCED:
            raise Fenced(str(error)) from failure
        if error.code() in GROUP_WENT_ON and error.txn_requires_abort():
            raise GroupWentOn(str(error)) from failure
        raise
