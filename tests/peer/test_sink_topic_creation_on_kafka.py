"""Topics that Spark's sink writes to and that do not exist, on Apache Kafka."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.spark.connection import connect
from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.errors import MissingTopic
from penstock.spark.sink.output_topics import need_topics
from rig.apache_kafka.broker import ApacheKafka


@pytest.fixture
def creating_kafka(kafka_jars: Path, tmp_path: Path) -> Iterator[ApacheKafka]:
    """It creates topics, as Apache Kafka does by default."""
    peer = ApacheKafka(jars=kafka_jars, folder=tmp_path, settings={"num.partitions": "3"})
    peer.start()
    yield peer
    peer.stop()


def partition_counts(bootstrap: str, topics: list[str]) -> list[int]:
    async def need() -> list[int]:
        connection = ConnectionOptions(bootstrap=bootstrap)
        async with connect(connection) as cluster:
            view = await need_topics(cluster, connection, topics)
            return [len(view.topics[topic].partitions) for topic in topics]

    return asyncio.run(need())


def test_topics_are_created_by_the_brokers_rule(creating_kafka: ApacheKafka) -> None:
    assert partition_counts(creating_kafka.bootstrap, ["first", "second"]) == [3, 3]


def test_topic_that_brokers_do_not_create_is_refused(apache_kafka: ApacheKafka) -> None:
    with pytest.raises(MissingTopic, match=r"topic missing .* \(auto.create.topics.enable=false\)"):
        partition_counts(apache_kafka.bootstrap, ["missing"])
