"""The lag that a running node tells of its groups, after what real clients did."""

import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.broker.coordinators.group_lag import GroupLag, group_lags
from penstock.groups.lag import Lag
from rig.running_node import RunningNode, running_node

WAIT_SECONDS = 120


async def lags_of(node: RunningNode, *, now_ms: int) -> list[GroupLag]:
    # There is no door to a node's inside until its metrics are served.
    inside: Any = node.node._running
    assert inside.broker is not None
    services = inside.broker.services
    return list(group_lags(services.groups.shards, services.partitions, now_ms=now_ms))


def test_lag_follows_records_and_commits(tmp_path: Path) -> None:
    with running_node(tmp_path, offsets_topic_num_partitions="2") as node:
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": node.bootstrap}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("orders", 2)])["orders"].result(WAIT_SECONDS)
        producer = Producer({**settings, "linger.ms": 0})
        now_ms = time.time_ns() // 1_000_000
        for number in range(10):
            producer.produce(
                "orders", b"v", partition=0, timestamp=now_ms - 10_000 + number * 1_000
            )
            producer.flush()
        for group, offset in (("slow", 2), ("done", 10)):
            consumer = Consumer({**settings, "group.id": group})
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
            consumer.close()
        found = node.run(lags_of(node, now_ms=now_ms))
        assert {one.group: (one.committed, one.end_offset, one.lag) for one in found} == {
            "slow": (2, 10, Lag(records=8, missed=0, age_ms=8_000)),
            "done": (10, 10, Lag(records=0, missed=0, age_ms=0)),
        }
