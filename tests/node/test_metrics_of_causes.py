"""Why groups rebalance, and what compaction has yet to do, as clients have made it so."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from rig.running_node import RunningNode, running_node
from rig.scraping import Scraped, scrape_until

WAIT_SECONDS = 60
REBALANCES = "penstock_group_rebalances_total"
DIRTY = "penstock_compaction_dirty_bytes"
RATIO = "penstock_compaction_dirty_ratio_max"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(
        tmp_path,
        penstock_metrics_address="0",
        offsets_topic_num_partitions="1",
        group_initial_rebalance_delay_ms="0",
        log_cleaner_backoff_ms="100",
    ) as running:
        yield running


def until(node: RunningNode, is_so: Callable[[Scraped], bool]) -> Scraped:
    return scrape_until(f"http://{node.node.metrics_address}/metrics", is_so)


def rebalances(told: Scraped) -> dict[tuple[str, str], float]:
    """Those that there were."""
    counts = {(one["protocol"], one["cause"]): count for one, count in told.all(REBALANCES)}
    assert len(counts) == 2 * 9
    return {place: count for place, count in counts.items() if count}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalances_are_counted_by_cause(node: RunningNode, protocol: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(WAIT_SECONDS)
    consumers: list[Consumer] = []

    def until_rebalanced(**causes: int) -> None:
        wanted = {(protocol, cause): count for cause, count in causes.items()}

        def is_so(told: Scraped) -> bool:
            for one in consumers:
                one.poll(0.05)
            owned = sum(len(one.assignment()) for one in consumers)
            return owned == 2 and rebalances(told) == wanted

        until(node, is_so)

    for number in (1, 2):
        settings = {"group.id": "readers", "group.protocol": protocol}
        consumer = Consumer({"bootstrap.servers": node.bootstrap, **settings})
        consumer.subscribe(["orders"])
        consumers.append(consumer)
        until_rebalanced(member_joined=number)
    consumers.pop().close()
    until_rebalanced(member_joined=2, member_left=1)
    consumers.pop().close()


def test_what_is_to_be_compacted_is_told_until_it_is(node: RunningNode, tmp_path: Path) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "1.0",  # never
    }
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    made = admin.create_topics([NewTopic("states", 1, config=config), NewTopic("orders", 1)])
    for one in made.values():
        one.result(WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for _ in range(8):
        producer.produce("states", b"v" * 400_000, key=b"k")
        producer.flush()
    logs = sorted((tmp_path / "node-1" / "states-0").glob("*.log"))
    sealed = sum(path.stat().st_size for path in logs[:-1])
    assert sealed > 1_000_000
    told = until(node, lambda one: one.by(DIRTY, "topic") == {"states": sealed})
    assert told.by(RATIO, "topic") == {"states": 1.0}
    assert told("kafka_log_logcleanermanager_max_dirty_percent") == 100
    assert told("penstock_compaction_uncleanable_partitions") == 0
    entry = ConfigEntry(
        "min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, "states", incremental_configs=[entry])
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(WAIT_SECONDS)
    told = until(node, lambda one: one.by(DIRTY, "topic") == {"states": 0})
    assert told.by(RATIO, "topic") == {"states": 0}
    assert told("kafka_log_logcleanermanager_max_dirty_percent") == 0
