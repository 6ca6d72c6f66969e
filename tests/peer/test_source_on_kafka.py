"""Spark's source reads Apache Kafka as it reads a node: ranges, times, transactions, losses."""

import confluent_kafka
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.spark.source.errors import BadPosition, DataLoss
from rig.apache_kafka.broker import ApacheKafka
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.spark_source import batch_reader, places, rows_of, stream_reader

START_MS = 1_700_000_000_000


@pytest.fixture
def peer(apache_kafka: ApacheKafka) -> ConfluentClient:
    return ConfluentClient(apache_kafka.bootstrap)


def numbered(count: int) -> list[Message]:
    return [
        Message(
            key=b"%d" % number,
            value=b"value" * 20,
            headers=(("n", b"%d" % number),),
            partition=number % 2,
            timestamp_ms=START_MS + number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_read_whole_and_in_parts(
    apache_kafka: ApacheKafka, peer: ConfluentClient, codec: str
) -> None:
    topic = f"source-{codec}"
    peer.create_topic(topic, partitions=2)
    peer.produce(topic, numbered(400), codec=codec)
    reader = batch_reader(
        apache_kafka.bootstrap, subscribe=topic, includeHeaders="true", minPartitions="7"
    )
    rows = rows_of(reader)
    assert places(rows) == [(place, offset) for place in range(2) for offset in range(200)]
    for row in rows:
        number = b"%d" % (row["offset"] * 2 + row["partition"])
        assert (row["key"], row["headers"]) == (number, [{"key": "n", "value": number}])
    late = batch_reader(
        apache_kafka.bootstrap, subscribe=topic, startingTimestamp=str(START_MS + 398)
    )
    assert places(rows_of(late)) == [(0, 199), (1, 199)]


def test_transactions_and_losses_are_seen_alike(
    apache_kafka: ApacheKafka, peer: ConfluentClient
) -> None:
    topic = "source-transactions"
    peer.create_topic(topic)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": apache_kafka.bootstrap, "transactional.id": topic}
    )
    producer.init_transactions(60)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"x")
        assert producer.flush(120) == 0
        end(60)
    stream = stream_reader(apache_kafka.bootstrap, subscribe=topic, startingOffsets="earliest")
    try:
        start = stream.initialOffset()
        end_offset = stream.latestOffset(start, ReadAllAvailable())
        assert end_offset == {topic: {"0": 12}}
        found = places(rows_of(stream, stream.partitions(start, end_offset)))
        assert found == [(0, offset) for offset in range(6, 11)]
        peer.delete_records(topic, 0, before_offset=8)
        with pytest.raises(DataLoss, match="offsets 0 to 7 are gone, its log begins at 8"):
            stream.partitions(start, end_offset)
    finally:
        stream.stop()
    with pytest.raises(BadPosition, match="topic nowhere does not exist"):
        batch_reader(apache_kafka.bootstrap, subscribe="nowhere").partitions()
