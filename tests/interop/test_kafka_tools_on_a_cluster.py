"""Apache Kafka's own command-line tools against each node of a cluster, and its controllers."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.served_cluster import ServedCluster

NODES = (1, 2, 3)
VALUES = itertools.count(1_000_000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    with ServedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(params=[f"node {number}" for number in NODES] + ["controllers"])
def at(request: pytest.FixtureRequest, cluster: ServedCluster) -> tuple[str, str]:
    """The option that says whom to ask: one node, or the controllers."""
    if request.param == "controllers":
        return "--bootstrap-controller", ",".join(cluster.controllers)
    return "--bootstrap-server", cluster.addresses[int(request.param.split()[1])]


def done(agent: KafkaAgent, tool: str, *arguments: str) -> str:
    run = agent.run_tool(tool, *arguments)
    assert run.status == 0, run.output
    return run.output


def test_kafka_metadata_quorum(
    kafka_agent: KafkaAgent, cluster: ServedCluster, at: tuple[str, str]
) -> None:
    shown = done(kafka_agent, "kafka-metadata-quorum", *at, "describe", "--status")
    status = dict(line.split(":", 1) for line in shown.splitlines() if ":" in line)
    assert int(status["LeaderId"]) in NODES
    assert int(status["HighWatermark"]) > 0
    for number, address in zip(NODES, cluster.controllers, strict=True):
        assert f'"id": {number}, ' in status["CurrentVoters"]
        assert f'"endpoints": ["CONTROLLER://{address}"]' in status["CurrentVoters"]
    _, *rows = done(
        kafka_agent, "kafka-metadata-quorum", *at, "describe", "--replication"
    ).strip().splitlines()  # fmt: skip
    assert sorted(int(row.split()[0]) for row in rows) == list(NODES)
    assert sorted(row.split()[-1] for row in rows) == ["Follower", "Follower", "Leader"]


def test_kafka_cluster(
    kafka_agent: KafkaAgent, cluster: ServedCluster, at: tuple[str, str]
) -> None:
    assert "Cluster ID: " in done(kafka_agent, "kafka-cluster", "cluster-id", *at)
    _, *rows = done(kafka_agent, "kafka-cluster", "list-endpoints", *at).strip().splitlines()
    listed = {int(row.split()[0]): ":".join(row.split()[1:3]) for row in rows}
    if at[0] == "--bootstrap-server":
        assert listed == cluster.addresses
    else:
        assert list(listed.values()) == cluster.controllers


def test_kafka_configs(kafka_agent: KafkaAgent, at: tuple[str, str]) -> None:
    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "brokers", "--entity-default")
        return done(kafka_agent, "kafka-configs", *at, *entity, *arguments)

    value = next(VALUES)
    configs("--alter", "--add-config", f"message.max.bytes={value}")
    assert f"message.max.bytes={value}" in configs("--describe")


@pytest.mark.parametrize("number", NODES)
def test_kafka_topics_and_api_versions(
    kafka_agent: KafkaAgent, cluster: ServedCluster, number: int
) -> None:
    at = ("--bootstrap-server", cluster.addresses[number])
    name = f"made-at-{number}"
    done(kafka_agent, "kafka-topics", *at, "--create", "--topic", name, "--partitions", "3")
    shown = done(kafka_agent, "kafka-topics", *at, "--describe", "--topic", name)
    leaders = [line.split("Leader: ")[1].split()[0] for line in shown.splitlines()[1:]]
    assert sorted(leaders) == ["1", "2", "3"]
    versions = done(kafka_agent, "kafka-broker-api-versions", *at)
    assert versions.count("(id: ") == 3
    assert "Produce(0): 0 to 13 [usable: 13]" in versions


def test_kafka_dump_log_reads_the_metadata_of_each_node(
    kafka_agent: KafkaAgent, cluster: ServedCluster
) -> None:
    for node in cluster.laid_out:
        directory = Path(node.directory) / "__cluster_metadata-0"
        files = ",".join(str(path) for path in sorted(directory.glob("*.log")))
        checkpoint = directory / "00000000000000000000-0000000000.checkpoint"
        for file, said in ((files, "REGISTER_BROKER_RECORD"), (str(checkpoint), "KRaftVoters")):
            shown = done(
                kafka_agent, "kafka-dump-log", "--cluster-metadata-decoder", "--files", file
            )
            assert said in shown
            assert "isvalid: false" not in shown
