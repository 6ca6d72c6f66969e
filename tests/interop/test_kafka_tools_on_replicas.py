"""Apache Kafka's own command-line tools on a cluster whose partitions are replicated.

With PENSTOCK_INTEROP_PEER=1 the cluster is one of Apache Kafka, as in `conftest.py`.
"""

import itertools
import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.java import java_command
from rig.cluster_questions import is_whole, until
from rig.failover.cluster import (
    BRISK_SESSIONS,
    KafkaSoftware,
    PenstockSoftware,
    ReplicatedCluster,
    Software,
)
from rig.failover.questions import create_replicated, is_in_sync, leader_of, partition_states

NODES = (1, 2, 3)
NAMES = itertools.count(1)
PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"
TOOL_SECONDS_MAX = 240


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReplicatedCluster]:
    software: Software = PenstockSoftware()
    if os.environ.get("PENSTOCK_INTEROP_PEER") == "1":
        software = KafkaSoftware(request.getfixturevalue("kafka_jars"))
    folder = tmp_path_factory.mktemp("replicas")
    with ReplicatedCluster(software, folder, settings=BRISK_SESSIONS) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        yield made


@pytest.fixture
def down(cluster: ReplicatedCluster) -> Iterator[set[int]]:
    """Nodes that a test has killed: they are started again after it."""
    killed: set[int] = set()
    yield killed
    for number in killed:
        if not cluster.nodes[number].running:
            cluster.start(number)
    until("the cluster is whole", lambda: is_whole(cluster))


class Tools:
    """Kafka's tools, asking one node."""

    def __init__(self, agent: KafkaAgent, address: str) -> None:
        self._agent = agent
        self._at = ("--bootstrap-server", address)

    def done(self, tool: str, *arguments: str) -> str:
        run = self._agent.run_tool(tool, *self._at, *arguments)
        assert run.status == 0, run.output
        return run.output

    def listed(self, which: str) -> set[str]:
        """Partitions that `kafka-topics --describe --WHICH-partitions` names."""
        shown = self.done("kafka-topics", "--describe", f"--{which}-partitions")
        rows = [line.split() for line in shown.splitlines() if "Partition:" in line]
        return {f"{row[1]}-{row[3]}" for row in rows}

    def electable(self, topic: str) -> list[str]:
        """What `kafka-topics --describe` says of partition 0: who is in sync, who else may lead,
        and who led last.
        """
        shown = self.done("kafka-topics", "--describe", "--topic", topic)
        [row] = [line for line in shown.splitlines() if "\tPartition: 0\t" in line]
        columns = [column.rstrip() for column in row.split("\t")]
        return columns[[column.split(":")[0] for column in columns].index("Isr") :]


@pytest.fixture
def tools(kafka_agent: KafkaAgent, cluster: ReplicatedCluster) -> Tools:
    return Tools(kafka_agent, cluster.addresses[1])


def kill(cluster: ReplicatedCluster, down: set[int], number: int) -> None:
    down.add(number)
    cluster.nodes[number].end(signal.SIGKILL)


def new_name() -> str:
    return f"replicated-{next(NAMES)}"


def in_sync(cluster: ReplicatedCluster, topic: str, partition: int = 0) -> frozenset[int]:
    return partition_states(cluster.addresses[1], topic)[partition].in_sync


def test_kafka_topics_tells_which_partitions_a_dead_node_leaves_short(
    cluster: ReplicatedCluster, tools: Tools, down: set[int]
) -> None:
    usual, strict, lone = new_name(), new_name(), new_name()
    create_replicated(cluster, usual, partitions=2)
    create_replicated(cluster, strict, partitions=1, settings={"min.insync.replicas": "3"})
    few = ("--config", "min.insync.replicas=1")
    tools.done("kafka-topics", "--create", "--topic", lone, "--replica-assignment", "3", *few)
    until("the topic of one replica is led", lambda: is_in_sync(cluster, lone))
    for which in ("under-replicated", "under-min-isr", "unavailable"):
        assert tools.listed(which) == set()
    assert tools.listed("at-min-isr") == {f"{strict}-0", f"{lone}-0"}
    assert tools.electable(lone) == ["Isr: 3", "Elr:", "LastKnownElr:"]

    kill(cluster, down, 3)
    until("node 3 is out of sync", lambda: 3 not in in_sync(cluster, usual))
    until("node 3 leads no more", lambda: tools.listed("unavailable") == {f"{lone}-0"})
    replicated = {f"{usual}-0", f"{usual}-1", f"{strict}-0"}
    assert replicated <= tools.listed("under-replicated")
    assert f"{strict}-0" in tools.listed("under-min-isr")
    assert not {f"{usual}-0", f"{usual}-1"} & tools.listed("under-min-isr")
    assert {f"{usual}-0", f"{usual}-1"} <= tools.listed("at-min-isr")
    # Node 3 is eligible where it left fewer in sync than the minimum (KIP-966).
    assert tools.electable(usual)[1:] == ["Elr:", "LastKnownElr:"]
    assert tools.electable(strict)[1:] == ["Elr: 3", "LastKnownElr:"]
    assert tools.electable(lone) == ["Isr:", "Elr: 3", "LastKnownElr: 3"]

    cluster.start(3)
    for topic in (usual, strict, lone):
        until(f"{topic} is in sync", lambda topic=topic: is_in_sync(cluster, topic))  # type: ignore[misc]
    for which in ("under-replicated", "under-min-isr", "unavailable"):
        assert tools.listed(which) == set()
    for topic in (strict, lone):
        assert tools.electable(topic)[1:] == ["Elr:", "LastKnownElr:"]


def test_kafka_leader_election_elects_preferred_leaders(
    cluster: ReplicatedCluster, tools: Tools, down: set[int]
) -> None:
    topic = new_name()
    tools.done("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "3:1:2,1:2:3")
    until(f"{topic} is in sync", lambda: is_in_sync(cluster, topic))
    assert leader_of(cluster, topic, 0) == 3
    kill(cluster, down, 3)
    # Not always the next one: a controller that is new prefers whom it has heard from.
    until(
        "another leader", lambda: partition_states(cluster.addresses[1], topic)[0].leader in (1, 2)
    )
    cluster.start(3)
    until(f"{topic} is in sync", lambda: is_in_sync(cluster, topic))
    assert leader_of(cluster, topic, 0) in (1, 2)

    elect = ("--election-type", "preferred", "--topic", topic, "--partition")
    told = tools.done("kafka-leader-election", *elect, "0")
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in told
    until("the preferred leader", lambda: leader_of(cluster, topic, 0) == 3)
    told = tools.done("kafka-leader-election", *elect, "1")
    assert f"Valid replica already elected for partitions {topic}-1" in told


def test_kafka_leader_election_elects_uncleanly_when_an_operator_asks(
    cluster: ReplicatedCluster, tools: Tools, down: set[int]
) -> None:
    topic = new_name()
    settings = ("--config", "min.insync.replicas=1")
    create = ("--create", "--topic", topic, "--replica-assignment", "2:3", *settings)
    tools.done("kafka-topics", *create)
    until(f"{topic} is in sync", lambda: is_in_sync(cluster, topic))
    kill(cluster, down, 2)
    until("node 3 alone is in sync", lambda: in_sync(cluster, topic) == frozenset({3}))
    kill(cluster, down, 3)
    cluster.start(2)
    until("no leader", lambda: f"{topic}-0" in tools.listed("unavailable"))

    elect = ("--topic", topic, "--partition", "0", "--election-type", "unclean")
    told = tools.done("kafka-leader-election", *elect)
    assert f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0" in told
    until("node 2 leads", lambda: partition_states(cluster.addresses[1], topic)[0].leader == 2)


def test_kafka_verifiable_producer_and_consumer(
    cluster: ReplicatedCluster, kafka_jars: Path, tmp_path: Path
) -> None:
    topic = new_name()
    create_replicated(cluster, topic, partitions=3)
    java = java_command(kafka_jars, heap_mib=128, folder=tmp_path)
    acked = written(java, cluster, topic, count=500)
    assert len(acked) == 500
    group = ("--group-id", topic, "--reset-policy", "earliest", "--verbose")
    told = told_by(java, CONSUMER, cluster, topic, "--max-messages", "500", *group)
    assert stored(told, "record_data") == acked


def test_kafka_replica_verification_finds_replicas_equal(
    cluster: ReplicatedCluster, kafka_jars: Path, tmp_path: Path
) -> None:
    """It reads every replica, followers too, as nobody but a debugging client may."""
    topic = new_name()
    create_replicated(cluster, topic, partitions=3)
    java = java_command(kafka_jars, heap_mib=128, folder=tmp_path)
    ends = Counter(partition for partition, _ in written(java, cluster, topic, count=300))
    options = ("--topics-include", topic, "--report-interval-ms", "500")
    running = subprocess.Popen(
        [*java, VERIFICATION, "--broker-list", cluster.bootstrap, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    assert running.stdout is not None
    try:
        for line in running.stdout:
            lines.append(line.strip())
            found = re.search(r"max lag is 0 for partition .*-(\d+) at offset (\d+) among 3", line)
            if found is not None and int(found[2]) == ends[int(found[1])]:
                return
        raise AssertionError("\n".join(lines[-20:]))
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


Stored = dict[tuple[int, int], str]  # values by partition and offset


def written(java: list[str], cluster: ReplicatedCluster, topic: str, *, count: int) -> Stored:
    """What `kafka-verifiable-producer` says was acked; nothing else may have happened."""
    options = ("--max-messages", str(count), "--acks", "-1")
    told = told_by(java, PRODUCER, cluster, topic, *options)
    assert not [one for one in told if one["name"] == "producer_send_error"]
    return stored(told, "producer_send_success")


def stored(told: list[dict[str, Any]], kind: str) -> Stored:
    return {(one["partition"], one["offset"]): one["value"] for one in told if one["name"] == kind}


def told_by(
    java: list[str], tool: str, cluster: ReplicatedCluster, topic: str, *arguments: str
) -> list[dict[str, Any]]:
    """In a process of its own: these tools print until they end."""
    ended = subprocess.run(
        [*java, tool, "--bootstrap-server", cluster.bootstrap, "--topic", topic, *arguments],
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
