"""Apache Kafka's own tools operate clusters of three and of five nodes, unmodified.

Partitions are moved, leaders elected, voters and features changed, directories shown, and brokers
unregistered. Details of each tool are in the tests of its name.
"""

import itertools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rig.apache_kafka.agent import KafkaAgent, ToolRun
from rig.clients.confluent import QUIET
from rig.cluster_questions import is_whole, until
from rig.failover.cluster import BRISK_SESSIONS
from rig.failover.questions import high_watermarks, is_in_sync, leader_of, partition_states
from rig.operating.cluster import OperatedCluster
from rig.reassigning import create_on

NAMES = itertools.count(1)
SLOW, FAST = "2000", "100000000"  # bytes a second
RECORDS, RECORD_BYTES = 50, 10_000
WAIT_SECONDS = 60


class Tools:
    """A cluster, and the tools that ask its nodes."""

    def __init__(self, agent: KafkaAgent, cluster: OperatedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.last = max(cluster.nodes)  # the node that things are done to
        self._agent = agent

    def run(self, tool: str, *arguments: str) -> ToolRun:
        at = ("--bootstrap-server", self.cluster.bootstrap)
        if tool == "kafka-cluster":  # its first argument is what to do
            return self._agent.run_tool(tool, arguments[0], *at, *arguments[1:])
        return self._agent.run_tool(tool, *at, *arguments)

    def done(self, tool: str, *arguments: str) -> str:
        run = self.run(tool, *arguments)
        assert run.status == 0, run.output
        return run.output

    def refused(self, tool: str, *arguments: str) -> str:
        run = self.run(tool, *arguments)
        assert run.status != 0, run.output
        return run.output

    def create(self, *assignments: list[int]) -> str:
        topic = f"operated-{next(NAMES)}"
        create_on(self.cluster.addresses[1], topic, assignments, {"min.insync.replicas": "1"})
        until(f"{topic} is in sync", lambda: is_in_sync(self.cluster, topic))
        return topic

    def voters(self) -> dict[int, str]:
        """The directory id of each."""
        shown = self.done("kafka-metadata-quorum", "describe", "--status")
        status = dict(line.split(":", 1) for line in shown.splitlines() if ":" in line)
        return {one["id"]: one["directoryId"] for one in json.loads(status["CurrentVoters"])}


@pytest.fixture(scope="module", params=[3, 5], ids=["three nodes", "five nodes"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatedCluster]:
    folder = tmp_path_factory.mktemp("operated")
    with OperatedCluster(folder, nodes=request.param, settings=BRISK_SESSIONS) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        yield made


@pytest.fixture
def tools(kafka_agent: KafkaAgent, cluster: OperatedCluster, tmp_path: Path) -> Tools:
    return Tools(kafka_agent, cluster, tmp_path)


def test_kafka_reassign_partitions_throttles_cancels_and_verifies(tools: Tools) -> None:
    cluster, target = tools.cluster, [tools.last, tools.last - 1]
    topic = tools.create([1])
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "log_level": QUIET, "linger.ms": 0}
    )
    for _ in range(RECORDS):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=0)
        assert producer.flush(WAIT_SECONDS) == 0
    file = tools.folder / "moves.json"
    move = {"topic": topic, "partition": 0, "replicas": target}
    file.write_text(json.dumps({"version": 1, "partitions": [move]}))
    tool, with_file = "kafka-reassign-partitions", ("--reassignment-json-file", str(file))

    tools.done(tool, *with_file, "--execute", "--throttle", SLOW)
    assert "still in progress" in tools.done(tool, *with_file, "--verify")
    assert f"{topic}-0: replicas: " in tools.done(tool, "--list")
    told = tools.done(tool, *with_file, "--cancel")
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in told
    assert "Clearing broker-level throttles" in told
    assert partition_states(cluster.addresses[1], topic)[0].replicas == {1}

    tools.done(tool, *with_file, "--execute", "--throttle", FAST)
    until(
        "the move is complete",
        lambda: "still in progress" not in tools.done(tool, *with_file, "--verify"),
    )
    assert partition_states(cluster.addresses[1], topic)[0].replicas == set(target)
    until("the replicas are in sync", lambda: is_in_sync(cluster, topic))
    assert high_watermarks(cluster, topic)[0] == RECORDS
    assert not throttle_settings(tools, topic)


def throttle_settings(tools: Tools, topic: str) -> list[str]:
    """Of the topic and of all brokers."""
    entities = [("topics", topic), *(("brokers", str(node)) for node in tools.cluster.nodes)]
    shown = [
        tools.done("kafka-configs", "--entity-type", kind, "--entity-name", name, "--describe")
        for kind, name in entities
    ]
    return [line for told in shown for line in told.splitlines() if "throttled" in line]


def test_kafka_leader_election_brings_a_leader_back(tools: Tools) -> None:
    cluster, last = tools.cluster, tools.last
    topic = tools.create([last, 1, 2], [1, 2, last])
    cluster.nodes[last].end()
    others = OtherNodes(cluster, last)
    # Not always the next one: a controller that is new prefers whom it has heard from.
    until("another one leads", lambda: others.leader(topic) in (1, 2))
    cluster.start(last)
    until(f"{topic} is in sync", lambda: is_in_sync(cluster, topic))
    elect = ("--election-type", "preferred", "--topic", topic, "--partition")
    told = tools.done("kafka-leader-election", *elect, "0")
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in told
    until("the preferred one leads", lambda: leader_of(cluster, topic, 0) == last)
    told = tools.done("kafka-leader-election", *elect, "1")
    assert f"Valid replica already elected for partitions {topic}-1" in told


class OtherNodes:
    """The nodes that go on while one is down."""

    def __init__(self, cluster: OperatedCluster, down: int) -> None:
        self._address = next(address for node, address in cluster.addresses.items() if node != down)

    def leader(self, topic: str) -> int | None:
        return partition_states(self._address, topic)[0].leader


def test_kafka_metadata_quorum_removes_a_controller_and_adds_it(tools: Tools) -> None:
    before = tools.voters()
    assert sorted(before) == sorted(tools.cluster.nodes)
    quorum = "kafka-metadata-quorum"
    removed = ("--controller-id", str(tools.last), "--controller-directory-id", before[tools.last])
    tools.done(quorum, "remove-controller", *removed)
    assert sorted(tools.voters()) == sorted(set(before) - {tools.last})
    assert "VoterNotFound" in tools.refused(quorum, "remove-controller", *removed)
    properties = str(tools.cluster.properties(tools.last))

    def is_added() -> bool:
        """It may have to catch up first: then it is refused."""
        return tools.run(quorum, "--command-config", properties, "add-controller").status == 0

    until("the controller votes again", is_added)
    assert tools.voters() == before
    refused = tools.refused(quorum, "--command-config", properties, "add-controller")
    assert "DuplicateVoter" in refused


def test_kafka_features_describes_and_refuses_a_downgrade(tools: Tools) -> None:
    def levels() -> list[str]:
        shown = tools.done("kafka-features", "describe").splitlines()
        return [line.split("Epoch")[0] for line in shown if "Feature: " in line]

    before = levels()
    assert any("kraft.version" in line and "FinalizedVersionLevel: 1" in line for line in before), (
        before
    )
    for change in (
        ("downgrade", "--feature", "kraft.version=0"),
        ("downgrade", "--feature", "metadata.version=20"),
        ("upgrade", "--feature", "metadata.version=99"),
    ):
        tools.refused("kafka-features", *change)
    assert levels() == before
    tools.done("kafka-features", "upgrade", "--feature", "kraft.version=1")


def test_kafka_log_dirs_shows_the_replicas_of_every_broker(tools: Tools) -> None:
    nodes = sorted(tools.cluster.nodes)
    topic = tools.create(*[[node] for node in nodes])
    shown = tools.done("kafka-log-dirs", "--describe", "--topic-list", topic)
    told = json.loads(next(line for line in shown.splitlines() if line.startswith("{")))
    found = {
        one["broker"]: [
            replica["partition"] for path in one["logDirs"] for replica in path["partitions"]
        ]
        for one in told["brokers"]
    }
    assert found == {node: [f"{topic}-{index}"] for index, node in enumerate(nodes)}


def test_kafka_log_dirs_shows_equal_replicas_whoever_leads(tools: Tools) -> None:
    cluster, last = tools.cluster, tools.last
    topic = tools.create([last, 1, 2])
    produce(cluster, topic)
    until_shown_equal(tools, topic)

    cluster.nodes[last].end(signal.SIGKILL)
    others = OtherNodes(cluster, last)
    # A new controller elects whom it has heard from.
    until("another one leads", lambda: others.leader(topic) in (1, 2))
    produce(cluster, topic)
    cluster.start(last)
    until(f"{topic} is in sync", lambda: is_in_sync(cluster, topic))
    until_shown_equal(tools, topic)

    elect = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    tools.done("kafka-leader-election", *elect)
    until("the preferred one leads", lambda: leader_of(cluster, topic, 0) == last)
    produce(cluster, topic)
    until_shown_equal(tools, topic)


def produce(cluster: OperatedCluster, topic: str) -> None:
    """To partition 0; acked by all that are in sync."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": QUIET})
    for _ in range(RECORDS):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


def until_shown_equal(tools: Tools, topic: str) -> None:
    """Each replica of partition 0 is as large as on the leader's disk, and lags behind nobody."""
    cluster = tools.cluster
    leader = leader_of(cluster, topic, 0)
    files = (cluster.data(leader) / f"{topic}-0").glob("*.log")
    whole = {"size": sum(file.stat().st_size for file in files), "offsetLag": 0}
    assert whole["size"] >= RECORDS * RECORD_BYTES
    expected = dict.fromkeys((1, 2, tools.last), whole)
    until(f"replicas as in {expected}", lambda: shown_replicas(tools, topic) == expected)


def shown_replicas(tools: Tools, topic: str) -> dict[int, dict[str, int]]:
    """What `kafka-log-dirs` says of partition 0, by broker."""
    shown = tools.done("kafka-log-dirs", "--describe", "--topic-list", topic)
    told = json.loads(next(line for line in shown.splitlines() if line.startswith("{")))
    return {
        one["broker"]: {key: replica[key] for key in ("size", "offsetLag")}
        for one in told["brokers"]
        for path in one["logDirs"]
        for replica in path["partitions"]
    }


def test_kafka_cluster_unregisters_a_broker_that_was_stopped(tools: Tools) -> None:
    cluster, added = tools.cluster, tools.last + 1
    cluster.add(added, votes=False)
    listed = tools.done("kafka-cluster", "list-endpoints")
    assert cluster.addresses[added].rpartition(":")[2] in listed
    del cluster.addresses[added]
    node = cluster.nodes.pop(added)
    assert node.end() == 0
    told = tools.done("kafka-cluster", "unregister", "--id", str(added))
    assert f"Broker {added} is no longer registered." in told
    brokers = cluster.told("cluster", "describe")["brokers"]
    assert [one["id"] for one in brokers] == sorted(cluster.nodes)
    assert "BrokerIdNotRegistered" in tools.refused(
        "kafka-cluster", "unregister", "--id", str(added)
    )
