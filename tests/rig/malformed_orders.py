"""Orders, one in a hundred of them malformed, and a pipeline for them, before and after its repair.

A quarter of the malformed ones can't be read by any pipeline: they come back as letters.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import confluent_kafka
from confluent_kafka import TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import dead_letter, schemas
from rig.clients.confluent import QUIET

MALFORMED_EVERY = 100
FIRST_MALFORMED = 37
BEGIN_MS = 1_767_225_600_000
PATIENCE_SECONDS = 120
BEFORE = "number bigint NOT NULL, cents bigint NOT NULL, currency string NOT NULL"
AFTER = "number bigint NOT NULL, cents string NOT NULL, currency string"

Told = Callable[[int], None]
Steps = Callable[[DataFrame], DataFrame]


class Fault(Enum):
    QUOTED = "field cents should be bigint, and is a string"
    NAMELESS = "field currency is missing"
    FREE = "share failed: ZeroDivisionError: division by zero"
    CUT = "the value is not valid JSON"  # for good


FAULTS = tuple(Fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    orders: str
    shares: str
    dead: str


def fault_of(number: int) -> Fault | None:
    if number % MALFORMED_EVERY != FIRST_MALFORMED:
        return None
    return FAULTS[number // MALFORMED_EVERY % len(FAULTS)]


def order(number: int) -> bytes:
    fault = fault_of(number)
    fields: dict[str, object] = {"number": number, "cents": 100 + number % 900, "currency": "EUR"}
    if fault is Fault.QUOTED:
        fields["cents"] = "250"
    elif fault is Fault.NAMELESS:
        del fields["currency"]
    elif fault is Fault.FREE:
        fields["cents"] = 0
    text = json.dumps(fields)
    return text[:-9].encode() if fault is Fault.CUT else text.encode()


def write_orders(bootstrap: str, topic: str, count: int, *, told: Told = lambda _: None) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "enable.idempotence": True,
            "linger.ms": 20,
            "partitioner": "murmur2_random",
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic,
                    order(number),
                    str(number),
                    headers=[("trace", str(number))],
                    timestamp=BEGIN_MS + number,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
            told(number)
    assert producer.flush(PATIENCE_SECONDS) == 0
    told(count)


def first_version(topics: Topics) -> Steps:
    return lambda rows: _shared(schemas.parse_json(rows, BEFORE), F.col("parsed.cents"), topics)


def repaired_version(topics: Topics) -> Steps:
    """It takes numbers in quotes, euros where nothing is said, and orders that cost nothing."""

    def steps(rows: DataFrame) -> DataFrame:
        parsed = schemas.parse_json(rows, AFTER)
        cents = F.col("parsed.cents").try_cast("bigint")
        named = dead_letter.reject(parsed, cents.isNull(), "field cents is no number")
        return _shared(named, F.greatest(cents, F.lit(1)), topics)

    return steps


def _shared(parsed: DataFrame, cents: Column, topics: Topics) -> DataFrame:
    # Spark's workers do not know this module, so a function that they call is defined here.
    def share(cents: int) -> float:
        return 100 / cents

    shared = dead_letter.attempt(parsed, share, cents, returns="double", into="share")
    good = {
        "key": F.col("parsed.number").cast("string"),
        "value": F.to_json(F.struct("parsed.number", "share")),
    }
    return dead_letter.route(shared, good=good, topic=topics.shares, dead_letters=topics.dead)


def run_pipeline(
    spark: SparkSession,
    bootstrap: str,
    topics: Topics,
    steps: Steps,
    *,
    folder: Path,
    rows_at_once: int,
    told: Told = lambda _: None,
) -> None:
    """All that is there; the same folder goes on where the last one was."""
    rows = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topics.orders)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(rows_at_once))
        .load()
    )
    query = (
        steps(rows)
        .writeStream.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(1):
            told(sum(one["numInputRows"] for one in query.recentProgress))
    finally:
        query.stop()
    told(sum(one["numInputRows"] for one in query.recentProgress))


def replay(bootstrap: str, dead: str) -> int:
    """`penstock dlq replay`; returns how many letters it says."""
    command = [sys.executable, "-m", "penstock.cli.main", "dlq", "replay", dead]
    done = subprocess.run(
        [*command, "--bootstrap", bootstrap, "--json"], stdout=subprocess.PIPE, check=True
    )
    counted: int = json.loads(done.stdout)["replayed"]
    return counted


@dataclass(slots=True)
class Verdict:
    """What came out, against what ought to; all but the first four are faults."""

    shares: int = 0
    letters: int = 0
    attempts: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    missing: int = 0
    foreign: int = 0
    altered: int = 0

    @property
    def faults(self) -> int:
        return self.duplicates + self.missing + self.foreign + self.altered

    def compare(self, found: Counter[tuple[int, int]], wanted: set[tuple[int, int]]) -> None:
        self.duplicates += sum(count - 1 for count in found.values())
        self.missing += len(wanted - found.keys())
        self.foreign += len(found.keys() - wanted)


def judge(bootstrap: str, topics: Topics, count: int, *, repaired: bool) -> Verdict:
    """Numbers with the attempt that they came out at: shares count as attempt 0."""
    verdict = Verdict()
    bad = {number: fault for number in range(count) if (fault := fault_of(number)) is not None}
    lost = [number for number, fault in bad.items() if fault is Fault.CUT] if repaired else []
    hidden = lost if repaired else bad.keys()
    shares = Counter((int(one.key() or b"-1"), 0) for one in committed(bootstrap, topics.shares))
    verdict.shares = shares.total()
    verdict.compare(shares, {(number, 0) for number in range(count)} - {(n, 0) for n in hidden})
    letters: Counter[tuple[int, int]] = Counter()
    for one in committed(bootstrap, topics.dead):
        number, headers = int(one.key() or b"-1"), dict(one.headers() or [])
        if "penstock.dlq.replayed" in headers:
            continue  # a receipt
        attempt = int(headers["penstock.dlq.attempt"] or b"0")
        letters[number, attempt] += 1
        verdict.attempts[attempt] += 1
        verdict.reasons[(headers["penstock.dlq.reason"] or b"").decode()] += 1
        as_it_was = (
            one.value() == order(number)
            and headers["penstock.dlq.timestamp"] == str(BEGIN_MS + number).encode()
            and headers["trace"] == str(number).encode()
            and headers["penstock.dlq.topic"] == topics.orders.encode()
        )
        verdict.altered += not as_it_was
    verdict.letters = letters.total()
    verdict.compare(letters, {(n, 1) for n in bad} | {(n, 2) for n in lost})
    return verdict


def committed(bootstrap: str, topic: str) -> Iterator[confluent_kafka.Message]:
    """What another client reads of a topic, committed records alone, up to its end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, f"{topic}: its end was not reached"
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    deadline = time.monotonic() + PATIENCE_SECONDS
                    yield message
                else:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    ended.add(message.partition() or 0)
    finally:
        consumer.close()
