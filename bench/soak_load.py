"""What a soak is made of: topics with small segments, clients, and workers that are told of faults.

A worker is a loop of short turns on a thread of its own that ends when it is asked to. What it
finds wrong is a fault; what it did is counted. Nothing depends on order between workers.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

STREAM = "stream"
TABLE = "table"
VISITS = "visits"
MIB = 1024 * 1024
VALUE_BYTES = 1000
PATIENCE_SECONDS = 60.0
CRITICAL = 2  # syslog's number: librdkafka else tells standard error of each connection's end
FILLING = random.Random(1).randbytes(4096).hex().encode()

# One producer for each partition of the stream: codec, and whether it is idempotent.
PRODUCERS: tuple[tuple[str, bool], ...] = (
    ("none", True),
    ("none", False),
    ("gzip", True),
    ("snappy", False),
    ("lz4", True),
    ("zstd", True),
)
SMALL_SEGMENTS = {"segment.bytes": str(MIB), "file.delete.delay.ms": "1000"}
RETAINED = {**SMALL_SEGMENTS, "retention.bytes": str(8 * MIB), "retention.ms": "60000"}
COMPACTED = {
    **SMALL_SEGMENTS,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "10000",
    "segment.ms": "10000",
}
# What else would still be filling up long after the start is made small.
NODE_SETTINGS = {
    "log.retention.check.interval.ms": "2000",
    "log.cleaner.backoff.ms": "2000",
    "max.incremental.fetch.session.cache.slots": "50",
    "producer.id.expiration.ms": "60000",
    "producer.id.expiration.check.interval.ms": "5000",
}


class Ledger:
    """What all workers did, and what was wrong."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.faults: list[str] = []
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self._counts[what] += number

    def counts(self) -> Counter[str]:
        with self._lock:
            return self._counts.copy()

    def fault(self, text: str) -> None:
        with self._lock:
            self.faults.append(text)

    def expect(self, holds: bool, text: str) -> None:
        if not holds:
            self.fault(text)


class Worker(Protocol):
    pause_seconds: float

    def turn(self) -> None:
        """One short piece of work."""

    def finish(self) -> None:
        """The last one, after which nothing of it is under way."""


def work(worker: Worker, ledger: Ledger) -> threading.Thread:
    """Turns of a worker until the soak is over; a worker that fails is a fault, and its end."""
    name = type(worker).__name__

    def run() -> None:
        try:
            while not ledger.stop.wait(worker.pause_seconds):
                worker.turn()
            worker.finish()
        except Exception as error:
            ledger.fault(f"{name} ended: {error!r}")

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def value_of(partition: int, number: int) -> bytes:
    start = number * 7 % (len(FILLING) - VALUE_BYTES)
    return (b"%d:%d:" % (partition, number) + FILLING[start:])[:VALUE_BYTES]


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": CRITICAL})
    wanted = [
        NewTopic(STREAM, len(PRODUCERS), 1, config=RETAINED),
        NewTopic(TABLE, 1, 1, config=COMPACTED),
        NewTopic(VISITS, 1, 1, config=RETAINED),
    ]
    settle(admin.create_topics(wanted).values())


def settle(pending: Iterable[object]) -> None:
    for one in pending:
        one.result(PATIENCE_SECONDS)  # type: ignore[attr-defined]


def producer_of(bootstrap: str, *, codec: str, idempotent: bool) -> confluent_kafka.Producer:
    settings = {
        "bootstrap.servers": bootstrap,
        "log_level": CRITICAL,
        "compression.type": codec,
        "enable.idempotence": idempotent,
        "linger.ms": 5,
    }
    # Without idempotence a second try could store a record twice, rightly.
    return confluent_kafka.Producer(settings if idempotent else {**settings, "retries": 0})


def consumer_of(bootstrap: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": CRITICAL,
            "group.id": "unused-by-assignment",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": 1024,
        }
    )
