"""docs/metrics.md names every metric that a node tells, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.fetch import FetchPartition
from rig.data_requests import fetch_request, produce_request
from rig.dialogue import Dialogue
from rig.held_port import HeldPort
from rig.produced import produced
from rig.running_node import RunningNode
from rig.scraping import Scraped, scrape, scrape_until
from rig.source_tree import ROOT
from rig.tls_files import TlsFiles

GUIDE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
OF_SEVERAL_BROKERS = (
    "penstock_follower_lag_records_max",
    "kafka_server_brokertopicmetrics_replicationbytesin_total",
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
)
WAIT_SECONDS = 60
TOTAL = "_total"


class Row(NamedTuple):
    kind: str
    labels: frozenset[str]
    told_by: str
    text: str


def rows() -> dict[str, Row]:
    found = ROW.findall(GUIDE)
    assert len({name for name, *_ in found}) == len(found), "a name stands there twice"
    return {
        name: Row(kind, frozenset(re.findall(r"`(\w+)`", labels)), told_by, text)
        for name, kind, labels, told_by, text in found
    }


def told_rows(told: Scraped) -> dict[str, tuple[str, str]]:
    return {
        name + TOTAL * (family.type == "counter"): (family.type, family.documentation)
        for name, family in told.families.items()
    }


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A node that has one of everything: TLS, an error, a group that has missed a record, a
    transaction, a throttle, traces.
    """
    folder = tmp_path_factory.mktemp("busy")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "penstock.metrics.address": "0",
        "penstock.tracing.endpoint": "http://127.0.0.1:9",
        "log.cleaner.backoff.ms": "100",
        **TlsFiles(folder / "authority").node_settings(),
    }
    node = RunningNode(folder / "data", settings)
    node.start()
    try:
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": node.bootstrap}
        admin = AdminClient(client)
        for name in ("orders", "gone"):
            admin.create_topics([NewTopic(name, 1)])[name].result(WAIT_SECONDS)
        plain = Producer(client)
        plain.produce("gone", b"v")
        plain.flush()
        [deleted] = admin.delete_records([TopicPartition("gone", 0, 1)]).values()
        deleted.result(WAIT_SECONDS)
        fail_once(node)
        producer = Producer({**client, "transactional.id": "till"})
        producer.init_transactions(WAIT_SECONDS)
        producer.begin_transaction()
        producer.produce("orders", b"v")
        producer.flush()
        consumer = Consumer({**client, "group.id": "billing"})
        places = [TopicPartition("orders", 0, 0), TopicPartition("gone", 0, 0)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()
        entry = ConfigEntry(
            "follower.replication.throttled.rate",
            "1000",
            incremental_operation=AlterConfigOpType.SET,
        )
        broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        [altered] = admin.incremental_alter_configs([broker]).values()
        altered.result(WAIT_SECONDS)
        # The topics of the coordinators are compacted: the cleaner has looked at them by then.
        dirty = "penstock_compaction_dirty_bytes"
        url = f"http://{node.node.metrics_address}/metrics"
        yield scrape_until(url, lambda told: bool(told.by(dirty, "topic")))
        producer.abort_transaction(WAIT_SECONDS)
    finally:
        node.stop()


def fail_once(node: RunningNode) -> None:
    """A batch that is refused, a fetch that is, and one that is answered; what a producer sends
    again, out of order, and when it is fenced.
    """
    dialogue = Dialogue(node.bootstrap, "orders")
    batch = bytearray(build_batch([Record(b"key", b"value", timestamp_ms=1)]))
    dialogue.exchange(produce_request("orders", memoryview(bytes(batch))), version=9)
    batch[-1] ^= 1
    dialogue.exchange(produce_request("orders", memoryview(batch)), version=9)
    for offset in (0, 9):
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
        dialogue.exchange(fetch_request("orders", asked), version=12)
    for epoch, sequence in ((1, 0), (1, 0), (1, 2), (0, 0)):
        again = produced(producer_id=1_000_000, epoch=epoch, sequence=sequence)
        dialogue.exchange(produce_request("orders", again, acks=1), version=9)
    dialogue.close()


def test_every_metric_is_in_the_guide_and_the_other_way_round(busy: Scraped) -> None:
    told = told_rows(busy)
    assert rows().keys() == told.keys()
    assert {name: (row.kind, row.text) for name, row in rows().items()} == told


def test_labels_are_those_of_the_guide(busy: Scraped) -> None:
    for name, row in rows().items():
        samples = busy.families[name.removesuffix(TOTAL)].samples
        if name in OF_SEVERAL_BROKERS:
            continue  # their labels are seen in the test of a cluster
        assert samples, name
        found = {frozenset(sample.labels) - {"le"} for sample in samples}
        assert found == {row.labels}, name


def test_a_controller_tells_what_the_guide_says(tmp_path: Path) -> None:
    port = HeldPort()
    node = RunningNode(
        tmp_path,
        {
            "process.roles": "controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{port.address}",
            "listeners": f"CONTROLLER://{port.address}",
            "penstock.metrics.address": "0",
        },
    )
    node.start()
    try:
        told = scrape(f"http://{node.node.metrics_address}/metrics")
    finally:
        node.stop()
    wanted = {name for name, row in rows().items() if row.told_by in ("every node", "controllers")}
    assert told_rows(told).keys() == wanted
    assert {row.told_by for row in rows().values()} == {
        "every node",
        "controllers",
        "brokers",
        "nodes with TLS",
        "nodes with traces",
    }


def test_names_in_examples_are_told(busy: Scraped) -> None:
    _, _, examples = GUIDE.partition("## How to read them")
    named = set(re.findall(r"\b(?:penstock|kafka)_\w+", examples))
    suffixes = ("_bucket", "_count", "_sum")
    known = {name + suffix for name in rows() for suffix in ("", *suffixes)}
    assert len(named) > 10
    assert named <= known, named - known


def test_what_is_told_is_not_listed_as_missing() -> None:
    _, missing = GUIDE.split("## What is not told yet\n")
    items = [one.strip(" .\n") for one in re.split(r"[;\n]|\. ", missing) if one.strip(" .\n")]
    assert len(set(items)) == len(items)
    for told in ("KIP-714", "by API", "by topic", "rebalances", "compaction"):
        assert told not in missing
