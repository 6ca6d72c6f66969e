"""`penstock plan`: tables, JSON, refusals, and `--measure` on a node that is written to."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from penstock.cli.plan_show import bytes_text
from penstock.testing import Broker
from rig.command import Outcome
from rig.source_tree import ROOT
from rig.terminal import on_terminal

Run = Callable[..., Outcome]

WORKED = "--throughput 100 --consumers 30 --brokers 6"


def figures(lines: list[str]) -> dict[str, str]:
    """What stands in the second column, by the first."""
    cells = [re.split(r"\s{3,}", line.strip()) for line in lines]
    return {row[0]: row[1] for row in cells if len(row) == 3}


def test_the_worked_figures_are_in_the_table(run: Run) -> None:
    found = figures(run(f"plan partitions {WORKED}").lines)
    assert found == {
        "what": "figure",
        "partitions": "30",
        "for throughput": "10",
        "for consumers": "30",
        "for brokers": "6",
        "achievable": "300 MB/s",
        "partitions a broker": "5",
        "replicas a broker": "15",
    }
    assert "decided by consumers" in run(f"plan partitions {WORKED}").text


def test_the_worked_figures_are_in_the_json(run: Run) -> None:
    assert run(f"plan partitions {WORKED} --json").json() == {
        "partitions": 30,
        "decided_by": "consumers",
        "needs": {"throughput": 10, "consumers": 30, "brokers": 6},
        "throughput_mb_per_second": 100,
        "partition_mb_per_second": 10,
        "achievable_mb_per_second": 300,
        "measured": None,
        "brokers": 6,
        "replication_factor": 3,
        "partitions_per_broker": 5,
        "replicas_per_broker": 15,
        "replicas_per_broker_limit": 4_000,
        "within_limit": True,
        "brokers_needed": 3,
    }


def test_a_week_at_100_mb_is_60_tb_a_replica(run: Run) -> None:
    arguments = "--throughput 100 --retention 7d --brokers 6 --partitions 30"
    found = run(f"plan disk {arguments} --json").json()
    assert found["replica_bytes"] == 60_480_000_000_000
    assert found["disk_bytes_per_broker"] == pytest.approx(37.8e12, rel=0.01)
    shown = figures(run(f"plan disk {arguments}").lines)
    assert (shown["kept, a replica"], shown["disk of a broker"]) == ("60.5 TB", "37.8 TB")


def test_a_cluster_is_all_plans_at_once(run: Run) -> None:
    whole = run(f"plan cluster {WORKED} --json").json()
    assert whole["partitions"] == run(f"plan partitions {WORKED} --json").json()
    disk = "--throughput 100 --brokers 6 --partitions 30"
    assert whole["disk"] == run(f"plan disk {disk} --json").json()
    metadata = run("plan metadata --partitions 30 --brokers 6 --json").json()
    assert whole["metadata"].items() <= metadata.items()
    assert whole["memory"]["page_cache_bytes"] == 1_500_000_000
    assert whole["traffic"]["in_mb_per_second_per_broker"] == 50


def test_too_many_replicas_are_told_with_the_brokers_that_they_need(run: Run) -> None:
    shown = run("plan metadata --partitions 40000 --brokers 10")
    assert shown.lines[-1] == "more than 4,000 replicas a broker: 30 brokers would do"
    assert figures(shown.lines)["replicas a broker"] == "12,000"
    assert run("plan metadata --partitions 40000 --brokers 30").lines[-1].strip() == ""


def test_the_page_about_planning_shows_what_is_printed(run: Run) -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\n\$ penstock ([^\n]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for command, printed in shown:
        lines = [line.rstrip() for line in run(command).lines if line.strip()]
        assert printed.splitlines() == lines
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "planning.md", "exec"), {})


def test_one_broker_has_one_replica_unless_more_are_asked_for(run: Run) -> None:
    found = run("plan partitions --throughput 5 --brokers 1 --json").json()
    assert (found["replication_factor"], found["partitions"]) == (1, 1)


@pytest.mark.parametrize(
    ("command", "status", "line"),
    [
        ("partitions", 2, "Missing option '--throughput'."),
        ("partitions --throughput 0", 2, "Invalid value for '--throughput': 0.0 is not in the"),
        ("partitions --throughput nan", 1, "throughput is nan MB/s: expected more than 0"),
        ("partitions --throughput x", 2, "Invalid value for '--throughput': 'x'"),
        ("partitions --throughput 1 --consumers -1", 2, "Invalid value for '--consumers'"),
        (
            "cluster --throughput 1 --brokers 2 --replication-factor 3",
            1,
            "3 replicas of a partition need as many brokers, and there are 2",
        ),
        ("cluster --throughput 1 --partition-throughput 0.00000001 --brokers 0", 2, "Invalid"),
        ("disk --throughput 1 --retention 7", 2, "Invalid value for '--retention': '7': expected"),
        ("disk --throughput 1 --retention 0s", 1, "retention is 0 s: expected a second to"),
        ("disk --throughput 1 --fill 101", 2, "Invalid value for '--fill': 101 is not in the"),
        ("metadata --partitions 99999999999", 1, "partitions: 99999999999, expected 1 to"),
        ("partitions --throughput 1 --topic orders", 2, "--topic says what to measure: it needs"),
        (
            "partitions --throughput 1 --measure --partition-throughput 3",
            2,
            "--partition-throughput is what --measure finds: give one",
        ),
    ],
)
def test_what_makes_no_plan_is_refused_in_one_line(
    run: Run, command: str, status: int, line: str
) -> None:
    refused = run(f"plan {command}")
    assert (refused.status, refused.out) == (status, b"")
    assert refused.err.startswith(f"penstock: {line}")
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("command", [f"cluster {WORKED}", "metadata --partitions 1000000"])
def test_sixty_columns_are_enough(command: str, run: Run) -> None:
    """Nothing is cut: what each figure is made of goes over several lines."""
    lines = on_terminal(["plan", *command.split()], columns=60)
    assert max(map(len, lines)) <= 60
    assert not any("…" in line for line in lines)
    piped = figures(run(f"plan {command}").lines)
    assert len(piped) > 5
    assert figures(lines).items() >= piped.items()


def test_into_a_pipe_every_row_is_one_line(run: Run) -> None:
    lines = run(f"plan cluster {WORKED}").lines
    [row] = [line for line in lines if line.startswith(" process ")]
    assert row.rstrip().endswith("idle node, replicas, metadata; Apache Kafka: 6 GB of heap")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (999_600, "1 MB"),
        (60_480_000_000_000, "60.5 TB"),
        (10**21, "1000 EB"),
        (123_456 * 10**18, "123456 EB"),
    ],
)
def test_sizes_are_told_in_three_digits(size_bytes: int, text: str) -> None:
    assert bytes_text(size_bytes) == text


@contextmanager
def writing(broker: Broker, topic: str, *, partition: int) -> Iterator[None]:
    """To one partition, in small batches, until the end of the block."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    ended, begun = threading.Event(), threading.Event()

    def write() -> None:
        while not ended.wait(0.01):
            producer.produce(topic, bytes(10_000), partition=partition)
            assert producer.flush(60) == 0
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        ended.set()
        writer.join()


def test_the_busiest_partition_is_measured(run: Run, penstock: Broker) -> None:
    busy, quiet = penstock.topic(partitions=3), penstock.topic()
    command = "plan partitions --throughput 100 --measure --for 2s"
    with writing(penstock, busy, partition=1):
        outcome = run(f"{command} --json", bootstrap=penstock.bootstrap)
        other = run(f"{command} --topic {quiet}")
    found = outcome.json()
    assert found["measured"] == {"topic": busy, "partition": 1, "seconds": 2}
    assert found["partition_mb_per_second"] > 0
    assert found["needs"]["throughput"] == pytest.approx(
        100 / found["partition_mb_per_second"], rel=0.01, abs=1
    )
    assert (found["brokers"], found["replication_factor"]) == (1, 1)
    assert outcome.err.splitlines()[0] == "measuring for 2 s"
    assert f"the busiest partition, {busy}-1, took " in outcome.err
    assert (other.status, other.out) == (1, b"")
    assert other.err.splitlines()[1].startswith("penstock: nothing was written in 2 s: measure")


def test_a_topic_that_is_not_there_is_not_measured(run: Run, penstock: Broker) -> None:
    refused = run(
        "plan cluster --throughput 1 --measure --topic nowhere", bootstrap=penstock.bootstrap
    )
    assert (refused.status, refused.err) == (1, "penstock: nowhere: there is no such topic\n")


@pytest.mark.penstock(
    settings={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
)
def test_sizes_that_may_not_be_seen_are_not_taken_for_silence(run: Run, penstock: Broker) -> None:
    busy = penstock.topic()
    # From now on the cluster is that user's alone, and everyone may still write.
    added = run("acls add somebody describe --cluster", bootstrap=penstock.bootstrap)
    assert added.status == 0, added.err
    with writing(penstock, busy, partition=0):
        refused = run("plan partitions --throughput 1 --measure --for 1s")
    assert (refused.status, refused.out) == (1, b"")
    assert refused.err.splitlines()[1:] == [
        "penstock: no broker tells how large logs are: DescribeLogDirs needs the right to describe"
        " the cluster"
    ]
