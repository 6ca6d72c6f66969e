"""A worker of the pipeline that uses confluent-kafka."""

import time
from collections.abc import Callable
from typing import TypeVar

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from rig.pipeline.messages import (
    BATCH,
    PATIENCE_SECONDS,
    POLL_SECONDS,
    WorkerSettings,
    closing,
    is_to_fail,
    settings,
    tell_abort,
    tell_commit,
    tell_error,
)
from rig.pipeline.stream import SINK, SOURCE, Attempt, sink_partition_of, written

Result = TypeVar("Result")
QUIET = 2
BRISK: dict[str, str | int | float | bool] = {
    "log_level": QUIET,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
}


class Worker:
    def __init__(self, given: WorkerSettings) -> None:
        self._life = given.life
        self._attempts = 0
        self._gathered: list[confluent_kafka.Message] = []
        self._producer = Producer(
            {
                **BRISK,
                "bootstrap.servers": given.bootstrap,
                "transactional.id": given.transactional_id,
                "linger.ms": 0,
                # With the default, a broker's restart makes librdkafka forget the broker but not
                # that it coordinates the group; send_offsets_to_transaction then never returns.
                "metadata.recovery.strategy": "none",
            }
        )
        self._consumer = Consumer(
            {
                **BRISK,
                "bootstrap.servers": given.bootstrap,
                "group.id": given.group,
                "group.instance.id": given.instance,
                "session.timeout.ms": given.session_ms,
                "heartbeat.interval.ms": given.session_ms // 6,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )

    def run(self) -> None:
        ended = closing()
        insist(lambda: self._producer.init_transactions(PATIENCE_SECONDS))
        self._consumer.subscribe([SOURCE], on_revoke=self._lost, on_lost=self._lost)
        while not ended.is_set():
            self._gather()
            if self._gathered:
                self._attempts += 1
                self._try(Attempt(self._life, self._attempts))
        self._consumer.close()

    def _gather(self) -> None:
        self._gathered = []
        while len(self._gathered) < BATCH:
            message = self._consumer.poll(0 if self._gathered else POLL_SECONDS)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._gathered.append(message)
            elif error.fatal():
                raise KafkaException(error)  # the consumer is of no use any more: it was fenced

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Somebody else reads these now, what was gathered of them included."""
        gone = {partition.partition for partition in partitions}
        self._gathered = [one for one in self._gathered if one.partition() not in gone]

    def _try(self, attempt: Attempt) -> None:
        try:
            self._producer.begin_transaction()
            self._transform(attempt)
            if not is_to_fail(attempt):
                tell_commit(attempt)
                insist(lambda: self._producer.commit_transaction(PATIENCE_SECONDS))
                return
        except KafkaException as error:
            tell_error(error)
            if not error.args[0].txn_requires_abort():
                raise
        tell_abort(attempt)
        insist(lambda: self._producer.abort_transaction(PATIENCE_SECONDS))
        self._rewind()

    def _transform(self, attempt: Attempt) -> None:
        ends: dict[int, int] = {}
        for message in self._gathered:
            key, value = message.key(), message.value()
            partition, offset = message.partition(), message.offset()
            assert isinstance(key, bytes) and isinstance(value, bytes)
            assert partition is not None and offset is not None
            self._producer.produce(
                SINK, written(value, attempt), key, partition=sink_partition_of(key)
            )
            ends[partition] = offset + 1
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        offsets = [TopicPartition(SOURCE, partition, end) for partition, end in ends.items()]
        insist(
            lambda: self._producer.send_offsets_to_transaction(
                offsets, self._consumer.consumer_group_metadata(), PATIENCE_SECONDS
            )
        )

    def _rewind(self) -> None:
        """To what is committed, since what was gathered has come to nothing."""
        owned = self._consumer.assignment()
        if owned:
            committed = insist(lambda: self._consumer.committed(owned, PATIENCE_SECONDS))
            for one in committed:
                if one.offset < 0:
                    one.offset = confluent_kafka.OFFSET_BEGINNING
            self._consumer.assign(committed)


def insist(ask: Callable[[], Result]) -> Result:
    """Asks again as long as the library says that it helps, and a node may be starting."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            tell_error(error)


Worker(settings()).run()
