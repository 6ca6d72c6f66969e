"""How far a query is shows as the offsets of a group, to every tool that shows lag."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.connection import connect
from penstock.spark.lag import PATIENCE_MS, _place
from penstock.spark.progress import offsets_behind
from penstock.spark.query_group import behind
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.command import run_command
from rig.serve import ServedNode

PATIENCE_SECONDS = 240
KAFKA_WAITS = ("request.timeout.ms", "socket.connection.setup.timeout.ms", "default.api.timeout.ms")


def test_a_query_is_a_group_by_its_name(
    spark: SparkSession,
    node: ServedNode,
    topic: Callable[..., str],
    confluent: ConfluentClient,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    orders = topic(partitions=2)
    confluent.produce(orders, [Message(value=b"a", partition=number) for number in (0, 0, 1)])
    drain(query(spark, node, orders, folder, name="by-name"))
    assert eventually(node, "spark-by-name", orders, [2, 1])
    confluent.produce(orders, [Message(value=b"b", partition=1)])
    described = run_command(
        "groups describe spark-by-name --json",
        bootstrap=node.bootstrap,
        monkeypatch=monkeypatch,
        captured=capfdbinary,
    ).json()
    [group] = described
    assert [one["lag"] for one in group["partitions"]] == [0, 1]
    assert group["members"] == []


def test_a_query_is_the_group_that_it_was_told(
    spark: SparkSession,
    node: ServedNode,
    topic: Callable[..., str],
    confluent: ConfluentClient,
    folder: Path,
) -> None:
    orders = topic()
    confluent.produce(orders, [Message(value=b"a")])
    drain(query(spark, node, orders, folder, name="told", groupId="billing"))
    assert eventually(node, "billing", orders, [1])


def test_progress_tells_by_how_many_offsets_a_query_is_behind(
    spark: SparkSession,
    node: ServedNode,
    topic: Callable[..., str],
    confluent: ConfluentClient,
    folder: Path,
) -> None:
    orders = topic(partitions=2)
    confluent.produce(orders, [Message(value=b"a", partition=number) for number in (0, 0, 0, 1)])
    rows = query(spark, node, orders, folder, name="behind", maxOffsetsPerTrigger="2")
    drain(rows)
    told = [offsets_behind(one) for one in rows.recentProgress if one.numInputRows]
    zero, one = TopicPartition(orders, 0), TopicPartition(orders, 1)
    assert told[-1] == {zero: 0, one: 0}
    assert sum(told[0].values()) == 4 - rows.recentProgress[0].numInputRows > 0


def test_sources_of_other_formats_are_not_behind(spark: SparkSession, folder: Path) -> None:
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rates.writeStream.format("noop").option("checkpointLocation", str(folder))
    rates_query = writer.trigger(availableNow=True).start()
    drain(rates_query)
    assert rates_query.lastProgress is not None
    assert offsets_behind(rates_query.lastProgress) == {}


def test_a_told_group_with_members_is_refused_at_the_start(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str], folder: Path
) -> None:
    orders = topic()
    with (
        member(node, "busy-group", orders),
        pytest.raises(StreamingQueryException, match="'busy-group', and this group has members"),
    ):
        drain(query(spark, node, orders, folder, name="q", **{"kafka.group.id": "busy-group"}))


def test_a_commit_that_is_refused_is_logged_once_and_the_query_goes_on(
    spark: SparkSession,
    node: ServedNode,
    topic: Callable[..., str],
    confluent: ConfluentClient,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders, marked = topic(), topic()
    confluent.produce(orders, [Message(value=b"a")] * 3)
    confluent.produce(marked, [Message(value=b"a")])
    with member(node, "spark-unlucky", orders), caplog.at_level(logging.WARNING):
        one_by_one = {"maxOffsetsPerTrigger": "1"}
        drain(query(spark, node, orders, folder / "1", name="unlucky", **one_by_one))
        # Listeners are told in order: what is seen of the second query is after the first.
        drain(query(spark, node, marked, folder / "2", name="mark"))
        assert eventually(node, "spark-mark", marked, [1])
    [told] = [one.getMessage() for one in caplog.records if one.name == "penstock.spark.lag"]
    assert "query=unlucky" in told
    assert "the group is active" in told


def test_of_two_sources_of_one_partition_the_slower_counts() -> None:
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    reached = [{zero: Offset(5)}, {zero: Offset(3), one: Offset(7)}]
    assert behind(reached) == {zero: 3, one: 7}


def test_brokers_that_are_away_do_not_hold_up_other_listeners() -> None:
    """Every wait that a connection has is as short as the listener's patience."""
    slow = dict.fromkeys(KAFKA_WAITS, "60000")
    options = {f"kafka.{name}": told for name, told in slow.items()}
    place = _place({"kafka.bootstrap.servers": "127.0.0.1:1", **options}, query="q")
    rules = connect(place.connection).rules
    assert max(rules.request_ms_max, rules.connect_ms_max, rules.reach_ms_max) <= PATIENCE_MS


def query(
    spark: SparkSession, node: ServedNode, topic: str, folder: Path, *, name: str, **options: str
) -> StreamingQuery:
    rows = spark.readStream.format("penstock").options(
        **{"kafka.bootstrap.servers": node.bootstrap, "startingOffsets": "earliest"},
        subscribe=topic,
        **options,
    )
    writer = rows.load().writeStream.format("noop").queryName(name).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder)).start()


def drain(query: StreamingQuery) -> None:
    assert query.awaitTermination(PATIENCE_SECONDS), json.dumps(query.status)


def eventually(node: ServedNode, group: str, topic: str, offsets: list[int]) -> bool:
    """Whether another client sees these offsets, once the listener was told of the last batch."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})
    asked = [confluent_kafka.TopicPartition(topic, number) for number in range(len(offsets))]
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while time.monotonic() < deadline:
            if [one.offset for one in consumer.committed(asked, timeout=120)] == offsets:
                return True
            time.sleep(0.05)
        return False
    finally:
        consumer.close()


@contextmanager
def member(node: ServedNode, group: str, topic: str) -> Iterator[None]:
    """A consumer of someone else's, which is a member of the group."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    try:
        yield
    finally:
        consumer.close()
