"""Spark's own Kafka connector, unmodified: its source and its sink work with a node.

Its sink writes at least once. That the same check shows what it repeats tells that the check bites.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rig.apache_kafka.jars import PeerMissing
from rig.broker import Broker
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.numbered_rows import judge_topic, write_numbers
from rig.spark_connector import connector_jars
from rig.spark_driving import SparkDriver, decoded
from rig.spark_query import OFFICIAL, PENSTOCK, Carrying
from rig.transactional.confluent import ConfluentTransactions

ROWS = 60
Topics = Callable[..., str]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    try:
        jars = connector_jars()
    except PeerMissing as missing:
        pytest.skip(f"needs Spark's Kafka connector: {missing}")
    log = tmp_path_factory.mktemp("spark-connector") / "driver.log"
    one = SparkDriver(log=log, settings={"spark.jars": ",".join(map(str, jars))})
    yield one
    one.stop()


@pytest.fixture
def carrying(broker: Broker, topic: Topics, tmp_path: Path) -> Carrying:
    """From a topic with numbers to another, by Spark's own source and sink."""
    source, sink = topic(partitions=2), topic(partitions=2)
    write_numbers(broker.bootstrap, source, range(ROWS))
    return Carrying(
        bootstrap=broker.bootstrap,
        source=source,
        sink=sink,
        checkpoint=str(tmp_path / "checkpoint"),
        reader=OFFICIAL,
        writer=OFFICIAL,
    )


def read(driver: SparkDriver, broker: Broker, topic: str, **options: str) -> list[dict[str, Any]]:
    told = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
    found = decoded(driver.ask("read", format=OFFICIAL, options=told))
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_its_source_reads_a_topic_with_headers(
    driver: SparkDriver, broker: Broker, topic: Topics, confluent: ConfluentClient
) -> None:
    name = topic()
    headers = (("trace", b"a1"), ("trace", b"b2"))
    sent = [
        Message(key=b"k", value=b"v", headers=headers, timestamp_ms=1_700_000_000_000),
        Message(key=None, value=None),
    ]
    confluent.produce(name, sent)
    first, second = read(driver, broker, name, includeHeaders="true")
    assert (first["key"], first["value"], first["offset"]) == (b"k", b"v", 0)
    assert first["headers"] == [{"key": "trace", "value": b"a1"}, {"key": "trace", "value": b"b2"}]
    assert (second["key"], second["value"], second["offset"]) == (None, None, 1)


@pytest.mark.parametrize(
    "isolation, seen",
    [
        ("read_committed", [b"kept", b"kept"]),
        ("read_uncommitted", [b"kept", b"lost", b"kept", b"open"]),
    ],
)
def test_its_source_heeds_the_isolation_level(
    driver: SparkDriver, broker: Broker, topic: Topics, isolation: str, seen: list[bytes]
) -> None:
    name = topic()
    producer = ConfluentTransactions().producer(broker.bootstrap, f"writer-of-{name}")
    for value in (b"kept", b"lost", b"kept", b"open"):
        producer.begin()
        producer.send(name, value)
        if value == b"kept":
            producer.commit()
        elif value == b"lost":
            producer.abort()
    found = read(driver, broker, name, **{"kafka.isolation.level": isolation})
    producer.abort()
    producer.close()
    assert [row["value"] for row in found] == seen


def test_its_sink_writes_a_frame(driver: SparkDriver, broker: Broker, topic: Topics) -> None:
    name = topic(partitions=2)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": name}
    rows = [{"key": f"k{number}", "value": f"v{number}"} for number in range(10)]
    driver.ask("write", format=OFFICIAL, options=options, rows=rows)
    found = {(row["key"], row["value"]) for row in read(driver, broker, name)}
    assert found == {(row["key"].encode(), row["value"].encode()) for row in rows}


def test_its_stream_carries_topic_to_topic_over_restarts(
    driver: SparkDriver, carrying: Carrying
) -> None:
    assert driver.carry(carrying) == [0]
    write_numbers(carrying.bootstrap, carrying.source, range(ROWS, 2 * ROWS))
    assert driver.carry(carrying) == [1]
    judged = judge_topic(carrying.bootstrap, carrying.sink, count=2 * ROWS, ids=carrying.sink)
    assert not judged.faults


def test_a_task_tried_again_repeats_rows_in_its_sink(
    driver: SparkDriver, carrying: Carrying
) -> None:
    driver.carry(replace(carrying, failing_batch=0))
    judged = judge_topic(carrying.bootstrap, carrying.sink, count=ROWS)
    assert judged.duplicates == ROWS // 2
    assert judged.missing == 0


def test_its_checkpoint_is_continued_by_penstock_and_that_by_it(
    driver: SparkDriver, carrying: Carrying
) -> None:
    assert driver.carry(carrying) == [0]
    write_numbers(carrying.bootstrap, carrying.source, range(ROWS, 2 * ROWS))
    assert driver.carry(replace(carrying, reader=PENSTOCK, writer=PENSTOCK)) == [1]
    write_numbers(carrying.bootstrap, carrying.source, range(2 * ROWS, 3 * ROWS))
    assert driver.carry(carrying) == [2]
    judged = judge_topic(carrying.bootstrap, carrying.sink, count=3 * ROWS, ids=carrying.sink)
    assert not judged.faults
