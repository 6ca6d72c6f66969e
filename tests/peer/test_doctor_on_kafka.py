"""`penstock doctor` examines Apache Kafka, and its commands mend it there too."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from rig.apache_kafka.cluster import KafkaCluster
from rig.cluster_questions import is_whole, until
from rig.command import Outcome, run_command
from rig.examined import Examined
from rig.reassigning import create_on

pytestmark = pytest.mark.slow

SETTINGS = {"min.insync.replicas": "1"}


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaCluster(jars=kafka_jars, folder=folder) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        yield made


@pytest.fixture
def examined(
    cluster: KafkaCluster,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Examined:
    def run(command: str, *, bootstrap: str) -> Outcome:
        return run_command(
            command, bootstrap=bootstrap, monkeypatch=monkeypatch, captured=capfdbinary
        )

    return Examined(run, cluster.bootstrap)


def test_a_whole_cluster_passes_and_what_kafka_does_not_tell_is_unknown(
    examined: Examined,
) -> None:
    found = examined.report()
    statuses = {check: one["status"] for check, one in found.items()}
    for check in ("offline", "under-replicated", "under-min-insync", "partitions"):
        assert statuses[check] == "pass", found[check]
    assert statuses["disk"] in ("pass", "warn", "fail"), found["disk"]
    assert found["acls"]["reason"] == "there is no authorizer: everyone may do everything"
    assert found["tls"]["reason"].startswith(
        "this connection is PLAINTEXT, not encrypted; broker 1"
    )
    assert statuses["offset-reset"] == "unknown"
    for check in ("descriptors", "clock"):
        assert statuses[check] == "unknown"
        assert found[check]["reason"].endswith("only nodes of Penstock have metrics that do")


def test_what_is_wrong_is_found_and_mended(examined: Examined, cluster: KafkaCluster) -> None:
    create_on(cluster.addresses[1], "orders", [[1], [2]], SETTINGS)
    create_on(cluster.addresses[1], "endless", [[1, 2, 3]], {**SETTINGS, "retention.ms": "-1"})
    for settings in ({}, {"enable.idempotence": True}):
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        producer.produce(
            "orders", b"x" * 4_000, partition=0, timestamp=int(time.time() * 1000) - 600_000
        )
        assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing"})

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        except KafkaException:
            return False  # the topic of offsets is made just now, and its leaders are not known yet
        return True

    until("an offset is committed", is_committed)
    consumer.close()

    planned = examined.report("--throughput 30 --consumers 3 --topic orders")["partitions"]
    assert planned["reason"] == "orders has 2 partitions: 30 MB/s need 3, of 10 MB/s each"
    found = examined.report()
    statuses = {check: one["status"] for check, one in found.items()}
    assert statuses["lag"] == "fail", found["lag"]
    assert found["idempotence"]["reason"] == (
        "orders: 1 of its last 2 batches without a producer id"
    )
    mended = ("replication", "min-insync", "retention", "compression", "empty-groups")
    priced = ("retention", "empty-groups")
    assert "pass" not in {statuses[check] for check in mended}, found
    for check in mended:
        assert examined.mend_at_a_price(check) if check in priced else examined.mend(check)
    # What was one replica is three now, and may ask for two in sync.
    examined.mend("min-insync")
    found = examined.report()
    assert {found[check]["status"] for check in mended} == {"pass"}, found
    assert found["lag"]["status"] == "pass"


def reason(examined: Examined, check: str) -> object:
    return examined.report()[check]["reason"]


def test_a_broker_that_is_down_is_missed(examined: Examined, cluster: KafkaCluster) -> None:
    create_on(cluster.addresses[1], "away", [[3]], SETTINGS)
    cluster.nodes[3].end(signal.SIGKILL)
    # What has other replicas is led by them, though perhaps some moments later.
    until("it is missed", lambda: reason(examined, "offline") == "away-0 has no leader")
    found = examined.report()
    assert found["under-replicated"]["status"] == "fail"
    assert found["offline"]["faults"][0]["advice"].startswith("start broker 3 again")
    cluster.start(3)
    until("it is back", lambda: examined.status("under-replicated") == "pass")
    assert examined.status("offline") == "pass"
    examined.run("topics delete away", bootstrap=cluster.bootstrap)
