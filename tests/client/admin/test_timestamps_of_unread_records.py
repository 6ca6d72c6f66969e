"""The timestamp of the first record from an offset on, or why there is none."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from penstock.client.admin.group_lag import timestamps_at
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.testing import Broker

Run = Callable[[Callable[[Cluster], Any]], Any]
AT_MS = 1_700_000_000_000


def test_markers_alone_are_told_apart_from_what_was_not_read_in_time(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic(partitions=2)
    penstock.produce(topic, ["a", "b"], partition=0, timestamp_ms=AT_MS)
    producer = Producer({"bootstrap.servers": penstock.bootstrap, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=1)
    producer.commit_transaction(60)
    record, marker = TopicPartition(topic, 0), TopicPartition(topic, 1)
    unread = {record: Offset(1), marker: Offset(1)}

    async def work(cluster: Cluster) -> None:
        assert await timestamps_at(cluster, unread) == {record: AT_MS, marker: None}
        assert await timestamps_at(cluster, unread, wait_ms_max=0) == {}

    with_cluster(work)
