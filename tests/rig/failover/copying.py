"""A transactional consume-transform-produce of confluent-kafka that goes on while nodes die."""

import threading
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from rig.clients.confluent import QUIET
from rig.transactional.confluent import committed_consumer

PATIENCE_SECONDS = 120.0
RECORDS_AT_ONCE = 50
WAIT_SECONDS = 0.1
CALL_SECONDS = 20.0  # then it is called again, which goes on with it


class Copier:
    """Copies each record of one topic to the partition of the same number of another, on a thread
    of its own. What was aborted is read again from what is committed.
    """

    def __init__(
        self, bootstrap: str, source: str, target: str, *, name: str, protocol: str
    ) -> None:
        self.commits = 0
        self.aborts: list[str] = []
        self.failure: str | None = None  # an error after which a producer cannot go on
        self.assignments = 0
        self._target = target
        self._consumer = committed_consumer(bootstrap, group=name, **{"group.protocol": protocol})
        self._consumer.subscribe([source], on_assign=self._assigned)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "transactional.id": name,
                "retry.backoff.ms": 50,
                # Else it may forget the coordinator of a group while nodes restart, for ever.
                "metadata.recovery.strategy": "none",
            }
        )
        self._call = ""  # that is under way
        self._over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def await_commits(self, count: int) -> None:
        """So many more."""
        with self._changed:
            wanted = self.commits + count
            done = self._changed.wait_for(
                lambda: self.commits >= wanted or self.failure is not None, PATIENCE_SECONDS
            )
        assert self.failure is None, self.failure
        assert done, f"{self.commits} of {wanted} commits, in {self._call}, {self.aborts[-3:]}"

    def finish(self) -> None:
        self._over = True
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self._consumer.close()

    def _assigned(self, _: Any, partitions: list[TopicPartition]) -> None:
        self.assignments += bool(partitions)

    def _run(self) -> None:
        try:
            self._until_done("init", self._producer.init_transactions)
            while not self._over:
                self._copy_some()
        except KafkaException as failure:
            with self._changed:
                self.failure = str(failure)
                self._changed.notify_all()

    def _copy_some(self) -> None:
        messages = self._consumer.consume(RECORDS_AT_ONCE, WAIT_SECONDS)
        records = [one for one in messages if one.error() is None]
        if not records:
            return
        self._producer.begin_transaction()
        try:
            for record in records:
                self._producer.produce(self._target, record.value(), partition=record.partition())
            positions = self._consumer.position(self._consumer.assignment())
            read = [one for one in positions if one.offset >= 0]
            group = self._consumer.consumer_group_metadata()
            self._until_done(
                "send_offsets",
                lambda wait: self._producer.send_offsets_to_transaction(read, group, wait),
            )
            self._until_done("commit", self._producer.commit_transaction)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self.aborts.append(str(failure))
            self._until_done("abort", self._producer.abort_transaction)
            self._read_again()
            return
        with self._changed:
            self.commits += 1
            self._changed.notify_all()

    def _read_again(self) -> None:
        places = self._consumer.assignment()
        for place in self._consumer.committed(places, timeout=PATIENCE_SECONDS):
            offset = max(place.offset, 0)
            self._consumer.seek(TopicPartition(place.topic, place.partition, offset))

    def _until_done(self, name: str, call: Callable[[float], object]) -> None:
        self._call = name
        while True:
            try:
                call(CALL_SECONDS)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
                self._call = f"{name} after {failure}"
            else:
                self._call = ""
                return
