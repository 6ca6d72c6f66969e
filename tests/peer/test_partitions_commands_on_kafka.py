"""`penstock partitions` does to a cluster of Apache Kafka what it does to one of our own.

So does `penstock plan --measure`, which takes the same looks at it, and `penstock top`.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from rig.apache_kafka.cluster import KafkaCluster
from rig.cluster_questions import is_whole, until
from rig.command import Outcome, run_command
from rig.reassigning import create_on

pytestmark = pytest.mark.slow

Run = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaCluster(jars=kafka_jars, folder=folder) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        yield made


@pytest.fixture
def run(
    cluster: KafkaCluster,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Run:
    return lambda command: run_command(
        command, bootstrap=cluster.bootstrap, monkeypatch=monkeypatch, captured=capfdbinary
    )


def write(cluster: KafkaCluster, topic: str, *, partition: int = 0, count: int = 50) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, os.urandom(10_000), partition=partition)
        assert producer.flush(60) == 0


def throttled(run: Run, topic: str) -> int:
    told = run("configs describe --broker 1 --json").json()
    told += run(f"configs describe --topic {topic} --json").json()
    return sum("throttled" in one["name"] for one in told)


def test_a_move_is_throttled_shown_cancelled_and_done(
    run: Run, cluster: KafkaCluster, tmp_path: Path
) -> None:
    create_on(cluster.addresses[1], "moved", [[1]])
    write(cluster, "moved")
    path = tmp_path / "moves.json"
    partitions = [{"topic": "moved", "partition": 0, "replicas": [2, 3], "log_dirs": ["any"] * 2}]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    assert run(f"partitions reassign {path} --throttle 2000").status == 0
    assert throttled(run, "moved") == 4
    [moving] = run("partitions reassign --verify --json").json()["partitions"]
    assert (moving["topic"], moving["state"], moving["target"]) == ("moved", "moving", [2, 3])
    assert run("partitions reassign --cancel").lines == ["cancelled the move of moved-0"]
    assert throttled(run, "moved") == 0
    assert run("partitions reassign --cancel").err == (
        "penstock: nothing to cancel: no such partition moves\n"
    )
    told = run(f"partitions reassign {path} --throttle 100000000 --watch --json").json()
    assert [one["state"] for one in told["partitions"]] == ["complete"]
    assert throttled(run, "moved") == 0


def test_the_preferred_leader_is_elected(run: Run, cluster: KafkaCluster) -> None:
    create_on(cluster.addresses[1], "elected", [[1, 2]])
    moved = run("partitions reassign --topic elected --to-brokers 2,3 --watch --json").json()
    [target] = [one["target"] for one in moved["partitions"]]
    assert set(target) == {2, 3}
    [again] = run("partitions elect-leaders elected:0 --json").json()
    assert (again["leader"], again["error"]) == (target[0], None)
    assert run("partitions elect-leaders").lines == [
        "nothing to elect: all partitions are led as they should be"
    ]


def test_busy_partitions_are_found_and_balanced(run: Run, cluster: KafkaCluster) -> None:
    create_on(cluster.addresses[1], "busy", [[1]] * 4)
    writer = threading.Thread(target=write_for_a_while, args=(cluster, "busy"))
    writer.start()
    hot = run("partitions hot --for 2s --count 4 --json").json()
    done = run("partitions balance --for 3s --yes --json").json()
    writer.join()
    assert {one["topic"] for one in hot} == {"busy"}
    assert all(one["bytes_in_per_second"] > 0 for one in hot)
    # Each record is flushed before the next one, and so has a request of its own.
    assert all(
        one["requests_per_second"] == pytest.approx(one["records_per_second"], abs=0.2)
        for one in hot
    )
    assert done["brokers"][0]["load"] > 2 * done["mean"]
    assert done["changes"]
    assert all(change["done"] and change["replicas"] == [1] for change in done["changes"])
    stored = run("cluster log-dirs --topic busy --json").json()
    for change in done["changes"]:
        [new] = change["target"]
        [directory] = stored[new - 1]["directories"]
        assert change["partition"] in {one["partition"] for one in directory["replicas"]}


def test_what_moves_is_stopped_by_balance(run: Run, cluster: KafkaCluster, tmp_path: Path) -> None:
    create_on(cluster.addresses[1], "stopped", [[1]])
    write(cluster, "stopped")
    path = tmp_path / "moves.json"
    partitions = [{"topic": "stopped", "partition": 0, "replicas": [2]}]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    assert run(f"partitions reassign {path} --throttle 2000").status == 0
    assert throttled(run, "stopped") == 4
    assert run("partitions balance --stop").lines == ["cancelled the move of stopped-0"]
    assert throttled(run, "stopped") == 0
    assert run("partitions balance --stop").err == (
        "penstock: nothing to stop: no partition moves\n"
    )
    [told] = run("topics describe stopped --json").json()
    assert told["partitions"][0]["replicas"] == [1]


def test_a_plan_measures_what_a_partition_takes(run: Run, cluster: KafkaCluster) -> None:
    create_on(cluster.addresses[1], "measured", [[1]] * 4)
    writer = threading.Thread(target=write_for_a_while, args=(cluster, "measured"))
    writer.start()
    plan = run("plan partitions --throughput 100 --measure --topic measured --for 2s --json").json()
    writer.join()
    assert plan["measured"]["topic"] == "measured"
    assert 0 < plan["partition_mb_per_second"] < plan["achievable_mb_per_second"]
    assert (plan["brokers"], plan["decided_by"]) == (3, "throughput")


def test_three_nodes_are_shown_with_what_they_lead(run: Run, cluster: KafkaCluster) -> None:
    create_on(cluster.addresses[1], "shown", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    told = run("top --once --interval 0.5 --top 1000 --format json").json()
    assert [(one["id"], one["state"]) for one in told["nodes"]] == [(n, "up") for n in (1, 2, 3)]
    assert sum(one["controller"] for one in told["nodes"]) == 1
    assert all(one["leaders"] >= 1 and one["replicas"] >= 3 for one in told["nodes"])
    [shown] = [one for one in told["topics"] if one["topic"] == "shown"]
    assert (shown["partitions"], shown["records_per_second"]) == (3, 0)
    assert told["unknown"] == []


def test_a_killed_node_is_shown_as_fenced_with_what_it_is_missing_from(
    run: Run, cluster: KafkaCluster
) -> None:
    create_on(cluster.addresses[1], "missed", [[1, 2, 3]])
    cluster.nodes[3].end(signal.SIGKILL)
    told: dict[str, Any] = {}

    def is_fenced() -> bool:
        nonlocal told
        told = run("top --once --interval 0.5 --top 1000 --format json").json()
        return bool(told["nodes"][2]["state"] == "fenced")

    try:
        until("node 3 is fenced", is_fenced)
        assert [one["state"] for one in told["nodes"][:2]] == ["up", "up"]
        problems = [(one["problem"], one["about"], one["detail"]) for one in told["problems"]]
        assert ("node", "node 3", "fenced") in problems
        [missed] = [one for one in problems if one[1] == "missed-0"]
        assert missed[0] == "under-replicated"
        assert "in sync 2 of 3" in missed[2]
        assert "missing 3" in missed[2]
    finally:
        cluster.start(3)
        until("the cluster is whole", lambda: is_whole(cluster))


def write_for_a_while(cluster: KafkaCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    until = time.monotonic() + 12
    while time.monotonic() < until:
        for index in range(4):
            producer.produce(topic, bytes(1_000), partition=index)
        producer.flush(60)
