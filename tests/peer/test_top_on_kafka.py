"""`penstock top` shows an Apache Kafka as it shows a cluster of our own."""

import threading

import pytest
from confluent_kafka import Consumer, Producer

from rig.apache_kafka.broker import ApacheKafka
from rig.command import Outcome, run_command

TOPIC, GROUP = "seen-by-top", "readers-seen-by-top"
READ = 20


def test_nodes_topics_groups_and_problems_are_those_of_kafka(
    apache_kafka: ApacheKafka,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    def run(command: str) -> Outcome:
        return run_command(
            command,
            bootstrap=apache_kafka.bootstrap,
            monkeypatch=monkeypatch,
            captured=capfdbinary,
        )

    assert run(f"topics create {TOPIC}").status == 0
    producer = Producer({"bootstrap.servers": apache_kafka.bootstrap})
    for _ in range(READ):
        producer.produce(TOPIC, bytes(1_000))
    assert producer.flush(60) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": apache_kafka.bootstrap,
            "group.id": GROUP,
            "group.protocol": "classic",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    for _ in range(READ):
        assert consumer.poll(60) is not None
    consumer.commit(asynchronous=False)
    enough = threading.Event()

    def write() -> None:
        while not enough.is_set():
            producer.produce(TOPIC, bytes(1_000))
            assert producer.flush(60) == 0

    writer = threading.Thread(target=write)
    writer.start()
    try:
        told = run("top --once --format json --interval 1 --top 100").json()
    finally:
        enough.set()
        writer.join()
    consumer.close()
    [node] = told["nodes"]
    assert (node["state"], node["controller"]) == ("up", True)
    assert node["leaders"] == node["replicas"] > 0
    [topic] = [one for one in told["topics"] if one["topic"] == TOPIC]
    assert topic["records_per_second"] > 0
    # A batch of one record has 61 bytes before it, and some more for the record.
    assert 1_000 < topic["bytes_per_second"] / topic["records_per_second"] < 1_200
    assert 0 < topic["size_bytes"] <= node["log_bytes"]
    [group] = [one for one in told["groups"] if one["group"] == GROUP]
    assert (group["type"], group["state"], group["members"]) == ("classic", "Stable", 1)
    assert group["lag"] > 0
    assert [one for one in told["problems"] if TOPIC in one["about"]] == []
    assert told["unknown"] == []
