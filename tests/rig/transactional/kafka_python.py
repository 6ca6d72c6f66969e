"""Transactions of kafka-python 3."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    ProducerFencedError,
    UnknownMemberIdError,
)

from rig.transactional.interface import (
    PATIENCE_SECONDS,
    TRANSACTION_MS,
    Fenced,
    GroupWentOn,
    Reads,
    Transactional,
)

POLL_MS = 100
# A join that is answered between two polls is lost to the library: there are few of them.
MEMBER_POLL_MS = 1000


class KafkaPythonTransactions:
    name = "kafka-python"

    def producer(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> Transactional:
        return KafkaPythonProducer(bootstrap, transactional_id, timeout_ms=timeout_ms)

    def reader(self, bootstrap: str, topic: str) -> Reads:
        consumer = committed_consumer(bootstrap, group=None)
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        return KafkaPythonConsumer(consumer, poll_ms=POLL_MS)

    def member(self, bootstrap: str, topic: str, *, group: str, protocol: str) -> Reads:
        assert protocol == "classic"
        consumer = committed_consumer(bootstrap, group=group)
        consumer.subscribe([topic])
        return KafkaPythonConsumer(consumer, poll_ms=MEMBER_POLL_MS)


class KafkaPythonProducer:
    def __init__(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> None:
        self._producer: Any = KafkaProducer(
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
        self._send_offsets({TopicPartition(topic, 0): offset}, group)

    def send_offsets_of(self, member: Reads) -> None:
        assert isinstance(member, KafkaPythonConsumer)
        self._send_offsets(member.positions, member.group)

    def commit(self) -> None:
        with told_plainly():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with told_plainly():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)

    def _send_offsets(self, offsets: dict[TopicPartition, int], group: Any) -> None:
        told = {where: OffsetAndMetadata(offset, "", -1) for where, offset in offsets.items()}
        with told_plainly():
            self._producer.send_offsets_to_transaction(told, group)


class KafkaPythonConsumer:
    """Knows its group and how far it has read, still after it has left."""

    def __init__(self, consumer: KafkaConsumer, *, poll_ms: int) -> None:
        self._consumer = consumer
        self._poll_ms = poll_ms
        self.positions: dict[TopicPartition, int] = {}
        self.group: Any = None

    def poll(self) -> list[bytes]:
        batches = self._consumer.poll(timeout_ms=self._poll_ms)
        for where, batch in batches.items():
            self.positions[where] = batch[-1].offset + 1
        if batches:
            self.group = self._consumer.group_metadata()
        return [record.value for batch in batches.values() for record in batch]

    def close(self) -> None:
        self._consumer.close()


def committed_consumer(bootstrap: str, *, group: str | None) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


@contextmanager
def told_plainly() -> Iterator[None]:
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as failure:
        raise Fenced(str(failure)) from failure
    except (CommitFailedError, IllegalGenerationError, UnknownMemberIdError) as failure:
        raise GroupWentOn(str(failure)) from failure
