"""Files written here pass Apache Kafka's own inspection, and files that it left open here."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.log.aborted_index import encode_aborted
from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshot import decode_snapshot
from penstock.model.identity import NO_TOPIC_ID, ProducerEpoch, ProducerId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.world.disk import RealDisk
from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.broker import ApacheKafka
from rig.logs import NOW_MS, PARTITION, TOPIC_ID

SMALL = TopicSettings(segment_bytes=5_000, index_interval_bytes=500)
COMPLAINTS = ("mismatch", "isvalid: false", "non-consecutive", "exception", "error", "corrupt")
KEPT = TopicPartition("kept", 0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition closed here: every codec, producers, an aborted transaction, three epochs."""
    folder = tmp_path_factory.mktemp("written")
    directory = LogDirectory.open(disk=RealDisk(), path=str(folder))
    log = directory.open_log(PARTITION, TOPIC_ID, SMALL, now_ms=NOW_MS)
    for number in range(150):
        put(log, number, transactional=False)
        if number % 20 == 7:
            put(log, number, transactional=True)
            end_transaction(log, committed=number % 40 == 7)
    assert len(log.segments) > 3
    directory.close()
    return folder / str(PARTITION)


def put(log: PartitionLog, number: int, *, transactional: bool) -> None:
    count = 1 + number % 5
    producer = 9 if transactional else 7 + number % 2
    data = build_batch(
        [
            Record(
                b"key" if delta else None,
                b"v" * number * 3,
                (("header", b"value"),),
                # Not in order: the time index must name the batch that has the largest.
                timestamp_ms=NOW_MS + (number * 7919) % 1000 + delta,
            )
            for delta in range(count)
        ],
        base_offset=log.end_offset,
        codec=Codec(number % 5),
        leader_epoch=LeaderEpoch(number // 50),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        base_sequence=log.end_offset,
        transactional=transactional,
    )
    log.append([BatchView(memoryview(data))], now_ms=NOW_MS)


def end_transaction(log: PartitionLog, *, committed: bool) -> None:
    marker = end_transaction_batch(
        EndTransaction(committed=committed, coordinator_epoch=0),
        producer_id=ProducerId(9),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
        base_offset=log.end_offset,
        leader_epoch=LeaderEpoch(2),
    )
    log.append([BatchView(memoryview(marker))], now_ms=NOW_MS)


def dump(agent: KafkaAgent, file: Path, *options: str) -> str:
    run = agent.run_tool("kafka-dump-log", "--files", str(file), *options)
    assert run.status == 0, run.output
    # The tool of 4.3 says this of every segment but the first, of Apache Kafka's own as well.
    first = f"Non-consecutive offsets in {file}\n  -1 is followed by {int(file.stem)}\n"
    output = run.output.replace(first, "")
    assert not [word for word in COMPLAINTS if word in output.lower()], output
    return output


def test_kafka_reads_every_batch_and_record_of_our_segments(
    kafka_agent: KafkaAgent, written: Path
) -> None:
    offsets = []
    for file in sorted(written.glob("*.log")):
        lines = dump(kafka_agent, file, "--deep-iteration", "--print-data-log").splitlines()
        records = [line for line in lines if line.startswith("| offset: ")]
        offsets += [int(line.split()[2]) for line in records]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) > 400


@pytest.mark.parametrize("option", [None, "--index-sanity-check", "--verify-index-only"])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_kafka_finds_nothing_wrong_with_our_indexes(
    kafka_agent: KafkaAgent, written: Path, suffix: str, option: str | None
) -> None:
    files = sorted(written.glob(f"*.{suffix}"))
    assert len(files) > 3
    for file in files:
        output = dump(kafka_agent, file, *([option] if option else []))
        if option == "--index-sanity-check":
            assert "passed sanity check" in output


def test_kafka_reads_our_snapshots_and_aborted_transactions(
    kafka_agent: KafkaAgent, written: Path
) -> None:
    newest = max(written.glob("*.snapshot"))
    output = dump(kafka_agent, newest)
    for state in decode_snapshot(newest.read_bytes()).values():
        lines = [one for one in output.splitlines() if f"producerId: {state.producer_id} " in one]
        assert len(lines) == max(1, len(state.batches))
        for line, batch in zip(lines, state.batches, strict=False):
            assert f"lastSequence: {batch.last_sequence} " in line
    aborted = [dump(kafka_agent, file) for file in sorted(written.glob("*.txnindex"))]
    assert sum(output.count("producerId: 9") for output in aborted) == 4


@pytest.fixture(scope="session")  # as long as the broker: its topic is made once
def transactions_in_kafka(apache_kafka: ApacheKafka) -> ApacheKafka:
    """A broker with a partition that holds transactions, ended both ways, in every codec."""
    settings = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "1024"}
    admin = AdminClient({"bootstrap.servers": apache_kafka.bootstrap})
    admin.create_topics([NewTopic(KEPT.topic, 1, 1, config=settings)])[KEPT.topic].result(120)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": apache_kafka.bootstrap,
                "compression.type": codec,
                "transactional.id": f"writer-{codec}",
                "linger.ms": 5,
            }
        )
        producer.init_transactions(120)
        for round_number in range(3):
            producer.begin_transaction()
            for number in range(150):
                value = b"%d" % number * 400
                producer.produce(KEPT.topic, value, b"key", timestamp=NOW_MS + number)
            producer.flush(120)
            (producer.abort_transaction if round_number == 1 else producer.commit_transaction)(120)
    return apache_kafka


@pytest.fixture
def left_by_kafka(transactions_in_kafka: ApacheKafka, tmp_path: Path) -> Path:
    """Files as a killed broker leaves them: indexes with their reserve, and no marker.

    The broker runs on and deletes what other tests have left: of the partitions, one is taken.
    """
    home, left = transactions_in_kafka.data, tmp_path / "data"
    shutil.copytree(home / str(KEPT), left / str(KEPT))
    for path in home.iterdir():
        if path.is_file() and path.suffix != ".tmp":
            shutil.copy2(path, left)
    return left


def test_partition_that_a_killed_kafka_left_opens_here_with_all_it_holds(
    left_by_kafka: Path,
) -> None:
    folder = left_by_kafka / str(KEPT)
    largest = max(folder.glob("*.index"))
    assert largest.stat().st_size >= 10_000_000  # the reserve is there
    theirs = b"".join(file.read_bytes() for file in sorted(folder.glob("*.txnindex")))
    directory = LogDirectory.open(disk=RealDisk(), path=str(left_by_kafka))
    assert not directory.clean
    assert directory.identity is not None
    log = directory.open_log(KEPT, NO_TOPIC_ID, SMALL, now_ms=NOW_MS)
    log.check()
    assert log.recovery.bytes_cut == 0
    assert len(log.segments) > 1
    offsets = [
        record.offset for batch in log.batches_from(Offset(0)) for record in records_of(batch)
    ]
    assert offsets == list(range(5 * 3 * 151))
    assert len(log.producers.by_id) == 5
    assert log.producers.first_open_offset is None
    assert log.epochs.latest is not None
    aborted = log.aborted_within(from_offset=Offset(0), until_offset=log.end_offset)
    assert encode_aborted(aborted) == theirs
    found = log.offset_at_time(NOW_MS + 149)
    assert found is not None
    assert found.offset == 149
    directory.close()
    again = LogDirectory.open(disk=RealDisk(), path=str(left_by_kafka))
    log = again.open_log(KEPT, NO_TOPIC_ID, SMALL, now_ms=NOW_MS)
    assert log.recovery.segments_scanned == 0
    again.close()


def test_kafka_finds_nothing_wrong_with_the_indexes_that_we_rebuilt_for_it(
    kafka_agent: KafkaAgent, left_by_kafka: Path
) -> None:
    directory = LogDirectory.open(disk=RealDisk(), path=str(left_by_kafka))
    directory.open_log(KEPT, NO_TOPIC_ID, SMALL, now_ms=NOW_MS)
    directory.close()
    for file in sorted((left_by_kafka / str(KEPT)).glob("*.*")):
        if file.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
            dump(kafka_agent, file, *(["--deep-iteration"] if file.suffix == ".log" else []))
