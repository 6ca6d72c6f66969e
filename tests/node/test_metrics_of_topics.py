"""Messages and bytes of a topic are those that clients wrote and read, one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.fetch import FetchPartition
from rig.data_requests import fetch_request, produce_request
from rig.dialogue import Dialogue
from rig.produced import produced
from rig.running_node import RunningNode, running_node
from rig.scraping import Scraped, scrape

WAIT_SECONDS = 60
PREFIX = "kafka_server_brokertopicmetrics_"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(
        tmp_path, penstock_metrics_address="0", transaction_state_log_num_partitions="1"
    ) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        made = admin.create_topics([NewTopic("orders", 2), NewTopic("bills", 1)])
        for one in made.values():
            one.result(WAIT_SECONDS)
        yield running


def told_by(node: RunningNode) -> Scraped:
    return scrape(f"http://{node.node.metrics_address}/metrics")


def counts(told: Scraped, name: str) -> dict[str, float]:
    return told.by(f"{PREFIX}{name}_total", "topic")


def log_bytes(folder: Path, topic: str) -> int:
    return sum(path.stat().st_size for path in (folder / "node-1").glob(f"{topic}-?/*.log"))


def test_what_is_written_is_counted_by_topic(node: RunningNode, tmp_path: Path) -> None:
    assert counts(told_by(node), "messagesin") == {}
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 50})
    for number in range(1_000):
        producer.produce("orders", b"v" * 100, partition=number % 2)
    for _ in range(7):
        producer.produce("bills", b"v")
    producer.flush()
    told = told_by(node)
    assert counts(told, "messagesin") == {"orders": 1_000, "bills": 7}
    wanted = {topic: log_bytes(tmp_path, topic) for topic in ("orders", "bills")}
    assert counts(told, "bytesin") == wanted
    for name in ("bytesout", "failedproducerequests", "failedfetchrequests"):
        assert counts(told, name) == {}, name


def test_markers_of_transactions_are_messages(node: RunningNode, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "till"})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce("bills", b"v")
    producer.commit_transaction(WAIT_SECONDS)
    told = told_by(node)
    ends = told("kafka_log_log_logendoffset", topic="bills", partition="0")
    assert counts(told, "messagesin")["bills"] == ends == 2
    assert counts(told, "bytesin")["bills"] == log_bytes(tmp_path, "bills")


def test_what_is_read_is_counted_in_bytes(node: RunningNode) -> None:
    dialogue = Dialogue(node.bootstrap, "orders")
    batch = bytes(build_batch([Record(b"key", b"v" * 500, timestamp_ms=1_700_000_000_000)] * 3))
    for index in (0, 1, 1):
        dialogue.exchange(produce_request("orders", memoryview(batch), index=index), version=9)
    read = 0
    for offset, size_bytes_max in ((0, 1_000_000), (3, 1_000_000), (0, len(batch) + 10)):
        asked = [
            FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=size_bytes_max)
            for index, at in ((0, 0), (1, offset))
        ]
        [topic] = dialogue.exchange(fetch_request("orders", *asked), version=12).responses
        read += sum(len(one.records) for one in topic.partitions)
    # The end of the log: it waits, and is read again, and has nothing.
    end = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1_000)
    dialogue.exchange(fetch_request("orders", end, wait_ms=200), version=12)
    dialogue.close()
    assert read > 5 * len(batch)
    assert counts(told_by(node), "bytesout") == {"orders": read}


def test_what_is_refused_is_counted_and_is_no_message(node: RunningNode) -> None:
    dialogue = Dialogue(node.bootstrap, "orders")
    damaged = bytearray(build_batch([Record(b"key", b"value", timestamp_ms=1)]))
    damaged[-1] ^= 1
    for version in (9, 9, 3):  # the last one is no single batch to the shortcut
        dialogue.exchange(produce_request("orders", memoryview(damaged)), version=version)
    beyond = FetchPartition(partition=0, fetch_offset=9, partition_max_bytes=1_000)
    dialogue.exchange(fetch_request("bills", beyond, wait_ms=200), version=12)
    dialogue.close()
    told = told_by(node)
    assert counts(told, "failedproducerequests") == {"orders": 3}
    assert counts(told, "failedfetchrequests") == {"bills": 1}
    assert counts(told, "messagesin") == {}


def test_batches_that_come_again_or_out_of_order_or_of_a_fenced_producer_are_counted(
    node: RunningNode,
) -> None:
    dialogue = Dialogue(node.bootstrap, "orders")
    for epoch, sequence in (
        (0, 0),
        (0, 0),  # again
        (0, 1),
        (0, 1),  # again
        (0, 0),  # again
        (0, 3),  # 2 is missing
        (1, 0),
        (0, 2),  # of the epoch before
        (0, 2),
    ):
        batch = produced(producer_id=7, epoch=epoch, sequence=sequence)
        dialogue.exchange(produce_request("orders", batch), version=9)
    dialogue.close()
    told = told_by(node)
    assert told.by("penstock_duplicate_batches_total", "topic") == {"orders": 3}
    assert told.by("penstock_out_of_order_batches_total", "topic") == {"orders": 1}
    assert told.by("penstock_fenced_batches_total", "topic") == {"orders": 2}
    assert counts(told, "failedproducerequests") == {"orders": 3}
    assert counts(told, "messagesin") == {"orders": 3}


def test_batches_whose_producer_does_not_wait_for_all_replicas_are_counted(
    node: RunningNode,
) -> None:
    name = "penstock_early_acked_batches_total"
    assert set(told_by(node).by(name, "topic").values()) <= {0}
    dialogue = Dialogue(node.bootstrap, "orders")
    batch = bytes(build_batch([Record(b"key", b"value", timestamp_ms=1)] * 3))
    asked = (
        ("orders", -1),
        ("bills", 1),
        ("orders", 1),
        ("orders", 0),
        ("orders", 1),
        ("orders", 0),
    )
    for topic, acks in asked:
        request = produce_request(topic, memoryview(batch), acks=acks)
        dialogue.send(request, version=9)
        if acks:
            dialogue.reply_to(request, version=9)
    # What comes next on the connection is answered after the one that asked for no answer.
    dialogue.exchange(produce_request("orders", memoryview(batch)), version=9)
    dialogue.close()
    told = told_by(node)
    assert told.by(name, "topic") == {"orders": 4, "bills": 1}
    assert counts(told, "messagesin") == {"orders": 18, "bills": 3}


def test_a_topic_that_is_deleted_is_not_told_any_more(node: RunningNode) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for topic in ("orders", "bills"):
        producer.produce(topic, b"v")
    producer.flush()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.delete_topics(["orders"])["orders"].result(WAIT_SECONDS)
    assert counts(told_by(node), "messagesin") == {"bills": 1}
