"""Source, sink and lag do on Apache Kafka what they do here; its own tools see the query too."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.broker import ApacheKafka
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.sink_output import committed_records, open_transactional_ids

PATIENCE_SECONDS = 240


@pytest.fixture
def peer(apache_kafka: ApacheKafka) -> Iterator[ConfluentClient]:
    one = ConfluentClient(apache_kafka.bootstrap)
    yield one
    one.close()


def test_a_query_moves_each_record_once_and_its_lag_shows(
    spark: SparkSession,
    apache_kafka: ApacheKafka,
    kafka_agent: KafkaAgent,
    peer: ConfluentClient,
    folder: Path,
) -> None:
    peer.create_topic("peer-in", partitions=2)
    peer.create_topic("peer-out", partitions=2)
    peer.produce("peer-in", [Message(key=b"k", value=str(n).encode()) for n in range(10)])
    brokers = {"kafka.bootstrap.servers": apache_kafka.bootstrap}
    for _ in range(2):  # the second run has the rest, and nothing of the first
        rows = spark.readStream.format("penstock").options(
            **brokers, subscribe="peer-in", startingOffsets="earliest", maxOffsetsPerTrigger="6"
        )
        query = (
            rows.load()
            .select("key", "value")
            .writeStream.format("penstock")
            .options(**brokers, topic="peer-out", sinkId="peer")
            .option("checkpointLocation", str(folder))
            .queryName("peer")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_SECONDS)
        written = sorted(
            committed_records(apache_kafka.bootstrap, "peer-out"), key=lambda r: r.offset
        )
        assert [one.value for one in written] == [str(n).encode() for n in range(len(written))]
        peer.produce("peer-in", [Message(key=b"k", value=str(n).encode()) for n in (10, 11)])
    assert len(written) == 12
    left = open_transactional_ids(apache_kafka.bootstrap)
    assert [one for one in left if one.startswith("peer")] == []
    assert lag_shown(kafka_agent, apache_kafka.bootstrap, "spark-peer") == 2


def lag_shown(agent: KafkaAgent, bootstrap: str, group: str) -> int:
    """By Kafka's own tool, once the listener was told of the last batch."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        run = agent.run_tool(
            "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group
        )
        lines = [line.split() for line in run.output.splitlines() if "peer-in" in line]
        lag = sum(int(fields[5]) for fields in lines if fields[5].isdigit())
        reached = sum(int(fields[3]) for fields in lines if fields[3].isdigit())
        if reached == 12 or time.monotonic() > deadline:
            return lag
        time.sleep(0.1)
