"""A backlog in several batches, partitions of unequal pace: no event is late for a watermark."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.clickstream import job as clickstream_job
from penstock.spark.pipelines.clickstream import steps as clickstream
from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce import steps as commerce
from penstock.spark.pipelines.commerce.generate import moment
from penstock.spark.pipelines.generated import START_MS
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_topics
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.pipeline_input import make_topics
from rig.serve import ServedNode
from rig.sink_output import committed_records

pytestmark = pytest.mark.slow

COUNT = 200
BATCH_RECORDS = 80
MINUTE_MS = 60_000


def times_ms() -> list[list[int]]:
    """Of two partitions with as many records: one has ten hours of them, the other one hour."""
    return [[START_MS + number * pace_ms for number in range(COUNT)]
            for pace_ms in (3 * MINUTE_MS, MINUTE_MS // 4)]  # fmt: skip


def place_of(node: ServedNode, folder: Path) -> Place:
    return Place(
        bootstrap=node.bootstrap, folder=str(folder), once=True, batch_records_max=BATCH_RECORDS
    )


def message(fields: dict[str, object], at_ms: int, partition: int) -> Message:
    value = json.dumps(fields).encode()
    return Message(key=b"k", value=value, partition=partition, timestamp_ms=at_ms)


def test_revenue_has_every_payment_of_a_backlog(
    spark: SparkSession, node: ServedNode, confluent: ConfluentClient, folder: Path
) -> None:
    make_topics(node.bootstrap, "commerce")
    for partition, times in enumerate(times_ms()):
        payments = [
            message(
                {
                    "event_id": f"p-{partition}-{number}",
                    "transaction_id": f"{partition}-{number}",
                    "order_id": f"{partition}-{number}",
                    "customer_id": "ann",
                    "event": "completed",
                    "attempt": 1,
                    "version": 2,
                    "region": "north",
                    "amount_cents": 1,
                    "ordered_at": moment(at_ms),
                    "at": moment(at_ms),
                },
                at_ms,
                partition,
            )
            for number, at_ms in enumerate(times)
        ]
        confluent.produce(names.PAYMENTS, payments)
    place = place_of(node, folder)
    rows = read_topics(spark, place, names.PAYMENTS)
    revenue = commerce.revenue(commerce.checked(rows, names.PAYMENTS))
    query = write_topics(revenue, place, query="commerce.revenue", output_mode="update")
    query.awaitTermination()
    assert len(query.recentProgress) > 2 * COUNT // BATCH_RECORDS
    latest = {
        one.key: json.loads(one.value or b"")
        for one in committed_records(node.bootstrap, names.REVENUE)
    }
    assert sum(row["payments"] for row in latest.values()) == 2 * COUNT


def test_sessions_have_every_event_of_a_backlog(
    spark: SparkSession, node: ServedNode, confluent: ConfluentClient, folder: Path
) -> None:
    make_topics(node.bootstrap, "clickstream")
    last_ms = START_MS + 24 * 60 * MINUTE_MS  # it ends all sessions but its own
    for partition, times in enumerate(times_ms()):
        views = [
            message(
                {
                    "event_id": f"e-{partition}-{number}",
                    "user_id": f"u-{partition}-{number}",
                    "kind": "page_view",
                    "at_ms": at_ms,
                    "device": "phone",
                    "country": "DE",
                },
                at_ms,
                partition,
            )
            for number, at_ms in enumerate([*times, last_ms])
        ]
        confluent.produce(clickstream_job.EVENTS, views)
    place = place_of(node, folder)
    records = read_topics(spark, place, clickstream_job.EVENTS)
    sound = clickstream.sound(clickstream.parsed(records))
    sessions = clickstream.as_records(clickstream.sessions(sound), key="user_id")
    topic = clickstream_job.SESSIONS
    query = write_topics(sessions, place, query=topic, topic=topic)
    query.awaitTermination()
    assert len(committed_records(node.bootstrap, topic)) == 2 * COUNT
