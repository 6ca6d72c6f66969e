"""What is compacted here passes Apache Kafka's inspection; what it compacted is compacted here."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import NO_TOPIC_ID, ProducerEpoch, ProducerId, TopicPartition
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.compression import Codec
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.world.disk import RealDisk
from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.broker import ApacheKafka
from rig.compacting import clean, put, seal, state, state_of, stored
from rig.logs import NOW_MS, PARTITION, TOPIC_ID

COMPACTED = TopicSettings(
    cleanup_policy=frozenset({"compact"}), segment_bytes=4_000, index_interval_bytes=400
)
COMPLAINTS = ("mismatch", "isvalid: false", "exception", "error", "corrupt")
KEPT = TopicPartition("kept", 0)
WAIT_SECONDS_MAX = 240


def inspect(agent: KafkaAgent, folder: Path) -> str:
    """All that kafka-dump-log says of a partition's files."""
    output = ""
    for file in sorted(folder.glob("*.*")):
        if file.suffix in (".log", ".index", ".timeindex", ".txnindex"):
            options = ["--deep-iteration", "--print-data-log"] if file.suffix == ".log" else []
            output += agent.run_tool("kafka-dump-log", "--files", str(file), *options).output
    said = [line[:200] for line in output.splitlines() if not line.startswith("| offset:")]
    # Of a batch without records the tool says that its time, which the header has, is none.
    bare = r"Found timestamp mismatch in :.*\n  Index timestamp: \d+, log timestamp: -1\n"
    text = re.sub(bare, "", "\n".join(said))
    assert not [word for word in COMPLAINTS if word in text.lower()], text
    return output


def test_kafka_reads_what_was_compacted_here(kafka_agent: KafkaAgent, tmp_path: Path) -> None:
    disk = RealDisk()
    directory = LogDirectory.open(disk=disk, path=str(tmp_path))
    log = directory.open_log(PARTITION, TOPIC_ID, COMPACTED, now_ms=NOW_MS)
    updates: list[tuple[str, str | None]] = []
    for number in range(300):
        batch = [(f"key {number * 7 % 23}", f"{number}" * 20), (f"gone {number % 3}", None)]
        updates += batch
        codec = list(Codec)[number % len(Codec)]
        put(log, *batch, codec=codec, producer=number % 3, sequence=number // 3 * 2)
        if number % 50 == 10:
            put(log, ("key 1", "never"), producer=9, sequence=number // 50, transactional=True)
            end_transaction(log)
    seal(log)
    clean(disk, log)
    assert state(log) == state_of(updates)
    bases = len(log.segments)
    clean(disk, log)
    assert len(log.segments) < bases
    output = inspect(kafka_agent, tmp_path / str(PARTITION))
    assert "deleteHorizonMs: OptionalLong[" in output
    assert output.count("payload: ") == len(state(log))  # tombstones have none
    directory.close()


def end_transaction(log: PartitionLog) -> None:
    data = end_transaction_batch(
        EndTransaction(committed=False, coordinator_epoch=0),
        producer_id=ProducerId(9),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
        base_offset=log.end_offset,
    )
    log.append([BatchView(memoryview(data))], now_ms=NOW_MS)


@pytest.fixture
def compacting_kafka(kafka_jars: Path, tmp_path: Path) -> Iterator[ApacheKafka]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
    node = ApacheKafka(jars=kafka_jars, folder=folder, settings=settings)
    node.start()
    yield node
    if node.running:
        node.stop()


def test_log_that_kafka_compacted_serves_and_is_compacted_here(
    compacting_kafka: ApacheKafka, kafka_agent: KafkaAgent, tmp_path: Path
) -> None:
    updates = fill(compacting_kafka.bootstrap)
    checkpoint = compacting_kafka.data / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while KEPT.topic not in (checkpoint.read_text() if checkpoint.exists() else ""):
        assert time.monotonic() < deadline, "Apache Kafka has not compacted the topic"
        time.sleep(0.1)
    with compacting_kafka.paused():
        copies = [shutil.copytree(compacting_kafka.data, tmp_path / "killed")]
    compacting_kafka.stop()
    copies.append(shutil.copytree(compacting_kafka.data, tmp_path / "stopped"))
    for copy in copies:
        (copy / ".lock").unlink(missing_ok=True)
        disk = RealDisk()
        directory = LogDirectory.open(disk=disk, path=str(copy))
        log = directory.open_log(KEPT, NO_TOPIC_ID, COMPACTED, now_ms=NOW_MS)
        assert log.recovery.bytes_cut == 0
        assert log.recovery.segments_dropped == 0
        assert log.cleaned_offset is not None
        assert log.end_offset == len(updates)
        assert state(log) == state_of(updates)
        before = len(stored(log))
        assert before < len(updates)
        seal(log)
        clean(disk, log, cleaned_offset=log.cleaned_offset)
        assert state(log) == state_of(updates)
        assert len(stored(log)) < before
        inspect(kafka_agent, copy / str(KEPT))
        directory.close()


def fill(bootstrap: str) -> list[tuple[str, str | None]]:
    settings = {"cleanup.policy": "compact", "segment.bytes": str(2**20)}
    topic = NewTopic(KEPT.topic, 1, 1, config=settings)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[KEPT.topic].result(120)
    updates: list[tuple[str, str | None]] = []
    dice = Random(7)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for number in range(1000):
            key = f"key {number * 31 % 170}"
            value = None if number % 9 == 0 else dice.randbytes(900).hex()
            updates.append((key, value))
            producer.produce(KEPT.topic, value, key)
            if number % 100 == 99:
                producer.flush(120)
    return updates
