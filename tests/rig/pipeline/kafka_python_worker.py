"""A worker of the pipeline that uses kafka-python 3.

Three things of the library are lived with, as its users have to. Offsets that were refused are sent
again with the next transaction of the same producer; so an error ends this life. A request whose
coordinator cannot be reached just then is forgotten, and who waits for it waits for ever; so what
takes too long ends this life too. A join that is answered between two polls is lost, and on a busy
machine that may happen each time; so a life without partitions ends as well.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from rig.pipeline.messages import (
    BATCH,
    PATIENCE_SECONDS,
    WorkerSettings,
    closing,
    is_to_fail,
    settings,
    tell_abort,
    tell_commit,
    tell_error,
)
from rig.pipeline.stream import SINK, SOURCE, Attempt, sink_partition_of, written

POLL_MS = 1000  # long ones are few, and lose few joins
HANGS_SECONDS = 10.0


class Worker:
    def __init__(self, given: WorkerSettings) -> None:
        self._life = given.life
        self._attempts = 0
        brisk = {
            "bootstrap_servers": given.bootstrap,
            "reconnect_backoff_ms": 20,
            "reconnect_backoff_max_ms": 100,
            "retry_backoff_ms": 20,
        }
        self._producer: Any = KafkaProducer(**brisk, transactional_id=given.transactional_id)
        with watched():
            self._producer.init_transactions()
        self._consumer: Any = KafkaConsumer(
            **brisk,
            group_id=given.group,
            group_instance_id=given.instance,
            session_timeout_ms=given.session_ms,
            heartbeat_interval_ms=given.session_ms // 6,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=BATCH,
        )
        self._consumer.subscribe([SOURCE])

    def run(self) -> None:
        ended = closing()
        assigned = time.monotonic()
        while not ended.is_set():
            batches = self._consumer.poll(timeout_ms=POLL_MS)
            if self._consumer.assignment():
                assigned = time.monotonic()
            elif time.monotonic() > assigned + HANGS_SECONDS:
                end_life("without partitions")
            if batches:
                self._attempts += 1
                with watched():
                    self._try(Attempt(self._life, self._attempts), batches)
        self._consumer.close()

    def _try(self, attempt: Attempt, batches: dict[TopicPartition, list[Any]]) -> None:
        try:
            self._producer.begin_transaction()
            self._transform(attempt, batches)
            if not is_to_fail(attempt):
                tell_commit(attempt)
                self._producer.commit_transaction()
                return
        except KafkaError as error:
            tell_error(error)
            raise
        tell_abort(attempt)
        self._producer.abort_transaction()
        self._rewind()

    def _transform(self, attempt: Attempt, batches: dict[TopicPartition, list[Any]]) -> None:
        sent = [
            self._producer.send(
                SINK,
                written(record.value, attempt),
                key=record.key,
                partition=sink_partition_of(record.key),
            )
            for batch in batches.values()
            for record in batch
        ]
        for one in sent:
            one.get(PATIENCE_SECONDS)
        ends = {
            where: OffsetAndMetadata(batch[-1].offset + 1, "", -1)
            for where, batch in batches.items()
        }
        self._producer.send_offsets_to_transaction(ends, self._consumer.group_metadata())

    def _rewind(self) -> None:
        """To what is committed, since what was read has come to nothing."""
        for where in self._consumer.assignment():
            self._consumer.seek(where, self._consumer.committed(where) or 0)


@contextmanager
def watched() -> Iterator[None]:
    watchdog = threading.Timer(HANGS_SECONDS, end_life, ["a call did not return"])
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def end_life(reason: str) -> None:
    tell_error(TimeoutError(f"{reason} for {HANGS_SECONDS} s"))
    os._exit(1)


# What the library did before such an end is in the worker's log, whose end a failed test shows.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
Worker(settings()).run()
