"""Producers that write all the time, whatever happens to the cluster: one for each client library.

Each is idempotent with acks of all, and keeps trying for longer than any fault lasts. With another
`acks` none is: so that it can be seen that the loss is found.
"""

import json
import subprocess
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import confluent_kafka
from kafka import KafkaProducer

from rig.apache_kafka.java import compiled, java_command
from rig.clients.confluent import QUIET
from rig.failover.acked_records import AckedRecords, value_of

SOURCE = Path(__file__).resolve().parents[1] / "java" / "LedgerProducer.java"
MAIN = "LedgerProducer"
UNDER_WAY_MAX = 1_000  # sent and not acked: while a cluster is down, no more are sent
DELIVERY_SECONDS = 1_800  # how long a client tries
FINISH_SECONDS_MAX = 180.0
ALL = "all"


class LedgerProducer(Protocol):
    client: str  # the library, as reports name it
    records: AckedRecords

    def finish(self) -> None:
        """Sends no more, and waits for the acks of what was sent."""


class Paced:
    """Sends `rate` records a second on a thread of its own."""

    client: str

    def __init__(self, records: AckedRecords, *, rate: float) -> None:
        self.records = records
        self._pause = 1 / rate
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=records.producer, daemon=True)

    def finish(self) -> None:
        self._over.set()
        self._thread.join(FINISH_SECONDS_MAX)
        if self._thread.is_alive():
            self.records.broke(f"it had not ended after {FINISH_SECONDS_MAX:g} s")

    def _run(self) -> None:
        try:
            due = time.monotonic()
            while not self._over.is_set():
                records = self.records
                if records.sent - records.count - records.errors.total() < UNDER_WAY_MAX:
                    self._send(records.next_number())
                due = max(due + self._pause, time.monotonic() - 1)
                self._rest(max(due - time.monotonic(), 0))
            self._flush()
        except Exception as error:
            # Whatever a client raises is news of the cluster under test, and no reason to end.
            self.records.broke(f"{type(error).__name__}: {error}")

    def _send(self, number: int) -> None:
        raise NotImplementedError

    def _rest(self, seconds: float) -> None:
        self._over.wait(seconds)

    def _flush(self) -> None:
        raise NotImplementedError


class ConfluentLedgerProducer(Paced):
    """librdkafka."""

    client = "confluent-kafka"

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        records: AckedRecords,
        *,
        rate: float,
        acks: str = ALL,
        settings: Mapping[str, Any] | None = None,  # others
    ) -> None:
        super().__init__(records, rate=rate)
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "acks": acks,
                "enable.idempotence": acks == ALL,
                "message.timeout.ms": DELIVERY_SECONDS * 1000,
                # Small batches, so that a fault finds many under way.
                "batch.num.messages": 10,
                "linger.ms": 1,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "socket.timeout.ms": 10_000,
                **(settings or {}),
            }
        )
        self._thread.start()

    def _send(self, number: int) -> None:
        self._producer.produce(
            self._topic,
            value_of(self.records.producer, number),
            partition=number % self.records.partitions,
            on_delivery=partial(self._delivered, number),
        )

    def _rest(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def _flush(self) -> None:
        # What is under way even then was neither acked nor given up: `unacked` counts it.
        self._producer.flush(FINISH_SECONDS_MAX - 10)

    def _delivered(
        self,
        number: int,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
    ) -> None:
        if error is None:
            partition = message.partition()
            assert partition is not None
            self.records.acked(number, partition=partition, offset=message.offset())
        else:
            self.records.failed(number, str(error))
            if error.fatal():
                self.records.broke(f"fatal: {error}")


class KafkaPythonLedgerProducer(Paced):
    client = "kafka-python"

    def __init__(
        self, bootstrap: str, topic: str, records: AckedRecords, *, rate: float, acks: str = ALL
    ) -> None:
        super().__init__(records, rate=rate)
        self._topic = topic
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks=acks if acks == ALL else int(acks),
            enable_idempotence=acks == ALL,
            delivery_timeout_ms=DELIVERY_SECONDS * 1000,
            max_block_ms=DELIVERY_SECONDS * 1000,
            request_timeout_ms=10_000,
            batch_size=2048,
            linger_ms=1,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            retry_backoff_ms=20,
        )
        self._thread.start()

    def _send(self, number: int) -> None:
        future: Any = self._producer.send(
            self._topic,
            value=value_of(self.records.producer, number),
            partition=number % self.records.partitions,
        )
        future.add_callback(partial(self._delivered, number))
        future.add_errback(partial(self._failed, number))

    def _flush(self) -> None:
        self._producer.flush(timeout=FINISH_SECONDS_MAX - 10)
        self._producer.close(timeout=5)

    def _delivered(self, number: int, stored: Any) -> None:
        self.records.acked(number, partition=stored.partition, offset=stored.offset)

    def _failed(self, number: int, error: BaseException) -> None:
        self.records.failed(number, f"{type(error).__name__}: {error}")


class JavaLedgerProducer:
    """A process; `tests/rig/java/LedgerProducer.java` tells by lines what was acked."""

    client = "Java"

    def __init__(
        self,
        command: list[str],
        bootstrap: str,
        topic: str,
        records: AckedRecords,
        *,
        rate: float,
        acks: str = ALL,
    ) -> None:
        self.records = records
        settings = {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "enable.idempotence": str(acks == ALL).lower(),
            "delivery.timeout.ms": str(DELIVERY_SECONDS * 1000),
            "max.block.ms": str(DELIVERY_SECONDS * 1000),
            "request.timeout.ms": "10000",
            "batch.size": "2048",
            "linger.ms": "1",
            "reconnect.backoff.ms": "20",
            "reconnect.backoff.max.ms": "200",
            "retry.backoff.ms": "20",
            "retry.backoff.max.ms": "200",
            # It hears of a new leader while what it sent to the old one has no answer yet.
            "metadata.max.age.ms": "500",
        }
        given = {
            "settings": settings,
            "topic": topic,
            "producer": records.producer,
            "partitions": records.partitions,
            "rate": rate,
            "under_way_max": UNDER_WAY_MAX,
        }
        self._process = subprocess.Popen(
            [*command, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._ended = False
        self._thread = threading.Thread(target=self._listen, name=records.producer, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join(FINISH_SECONDS_MAX)
        if self._thread.is_alive():
            self.records.broke(f"it had not ended after {FINISH_SECONDS_MAX:g} s")
            self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        """acked NUMBER PARTITION OFFSET; failed NUMBER TEXT; ended SENT."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, number, rest = line.rstrip("\n").split(" ", 2)
            if kind == "acked":
                partition, offset = map(int, rest.split())
                self.records.was_sent(int(number) + 1)
                self.records.acked(int(number), partition=partition, offset=offset)
            elif kind == "failed":
                self.records.was_sent(int(number) + 1)
                self.records.failed(int(number), rest)
            else:
                self.records.was_sent(int(number))
                self._ended = True
        if not self._ended:
            self.records.broke("its process ended too early")


def java_producer_command(*, jars: Path, folder: Path) -> list[str]:
    """Compiles the program of the Java producer."""
    classes = compiled([SOURCE], jars=jars, folder=folder)
    return [*java_command(jars, heap_mib=128, folder=folder, classes=classes), MAIN]


def start_producers(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    rate: float,
    java: list[str] | None,
    acks: str = ALL,
) -> list[LedgerProducer]:
    """One of each client; without the Java one where its command is not given."""

    def records(name: str) -> AckedRecords:
        return AckedRecords(name, partitions=partitions)

    made: list[LedgerProducer] = [
        ConfluentLedgerProducer(bootstrap, topic, records("confluent"), rate=rate, acks=acks),
        KafkaPythonLedgerProducer(bootstrap, topic, records("kafka-python"), rate=rate, acks=acks),
    ]
    if java is not None:
        made.append(
            JavaLedgerProducer(java, bootstrap, topic, records("java"), rate=rate, acks=acks)
        )
    return made
