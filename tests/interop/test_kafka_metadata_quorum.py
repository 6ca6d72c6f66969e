"""Apache Kafka's own tools change the voters and the features of a running cluster."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent, ToolRun
from rig.fixed_voters import NODES, FixedVoters, start
from rig.held_port import HeldPort
from rig.served_cluster import PENSTOCK, NodeProcess, ServedCluster

WAIT_SECONDS_MAX = 60
ADDED = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServedCluster]:
    with ServedCluster(tmp_path / "cluster") as cluster:
        cluster.start()
        yield cluster


class AddedController:
    """A controller of its own beside the cluster, formatted to be added."""

    def __init__(self, cluster: ServedCluster, node_id: int, path: Path) -> None:
        self.node_id = node_id
        self._port = HeldPort()
        self.address = self._port.address
        self.properties = path / f"controller-{node_id}.properties"
        self.directory = path / f"controller-{node_id}"
        self.properties.write_text(
            "process.roles=controller\n"
            f"node.id={node_id}\n"
            f"controller.quorum.bootstrap.servers={','.join(cluster.controllers)}\n"
            f"listeners=CONTROLLER://{self.address}\n"
            f"advertised.listeners=CONTROLLER://{self.address}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
            f"log.dirs={self.directory}\n"
        )
        self._cluster_id = _cluster_id(cluster)
        self.process = NodeProcess(
            f"controller {node_id}",
            [PENSTOCK, "serve", "--config", str(self.properties)],
            path / f"controller-{node_id}.log",
        )

    def format(self) -> str:
        """Formats its directory, and returns the id that it has got."""
        command = [PENSTOCK, "storage", "format", "--config", str(self.properties), "--cluster-id"]
        command += [self._cluster_id, "--no-initial-controllers", "--json"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return str(json.loads(run.stdout)["directory_id"])


def _cluster_id(cluster: ServedCluster) -> str:
    text = (cluster.data / "node-1" / "meta.properties").read_text()
    return next(line.split("=", 1)[1] for line in text.splitlines() if line[:11] == "cluster.id=")


def status(agent: KafkaAgent, cluster: ServedCluster) -> dict[str, str]:
    at = ("--bootstrap-server", cluster.bootstrap)
    run = agent.run_tool("kafka-metadata-quorum", *at, "describe", "--status")
    assert run.status == 0, run.output
    return dict(line.split(":", 1) for line in run.output.splitlines() if ":" in line)


def voters(agent: KafkaAgent, cluster: ServedCluster) -> dict[int, str]:
    """The directory id of each voter."""
    described = json.loads(status(agent, cluster)["CurrentVoters"])
    return {one["id"]: one["directoryId"] for one in described}


def leader(agent: KafkaAgent, cluster: ServedCluster) -> int:
    return int(status(agent, cluster)["LeaderId"])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def add(agent: KafkaAgent, cluster: ServedCluster, added: AddedController) -> ToolRun:
    return agent.run_tool(
        "kafka-metadata-quorum", "--bootstrap-server", cluster.bootstrap,
        "--command-config", str(added.properties), "add-controller",
    )  # fmt: skip


def remove(agent: KafkaAgent, cluster: ServedCluster, node_id: int, directory_id: str) -> ToolRun:
    return agent.run_tool(
        "kafka-metadata-quorum", "--bootstrap-controller", ",".join(cluster.controllers),
        "remove-controller", "--controller-id", str(node_id),
        "--controller-directory-id", directory_id,
    )  # fmt: skip


def test_controllers_are_added_removed_and_replaced(
    kafka_agent: KafkaAgent, cluster: ServedCluster, tmp_path: Path
) -> None:
    added = AddedController(cluster, ADDED, tmp_path)
    directory_id = added.format()
    added.process.begin()
    try:
        run = add(kafka_agent, cluster, added)
        assert run.status == 0, run.output
        assert voters(kafka_agent, cluster)[ADDED] == directory_id
        again = add(kafka_agent, cluster, added)
        assert again.status != 0 and "DuplicateVoter" in again.output, again.output

        # It is lost with its disk: its id alone does not make it a voter again.
        added.process.end()
        for file in sorted(added.directory.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        replaced_id = added.format()
        assert replaced_id != directory_id
        added.process.begin()
        run = remove(kafka_agent, cluster, ADDED, directory_id)
        assert run.status == 0, run.output
        assert sorted(voters(kafka_agent, cluster)) == [1, 2, 3]
        run = add(kafka_agent, cluster, added)
        assert run.status == 0, run.output
        assert voters(kafka_agent, cluster)[ADDED] == replaced_id

        # The leader removes itself, and another one takes over.
        former = leader(kafka_agent, cluster)
        run = remove(kafka_agent, cluster, former, voters(kafka_agent, cluster)[former])
        assert run.status == 0, run.output
        until(lambda: leader(kafka_agent, cluster) not in (former, -1))
        assert sorted(voters(kafka_agent, cluster)) == sorted({1, 2, 3, ADDED} - {former})
        run = remove(kafka_agent, cluster, former, replaced_id)
        assert run.status != 0 and "VoterNotFound" in run.output, run.output
    finally:
        added.process.end()


def test_features_are_described_and_no_downgrade_is_done(
    kafka_agent: KafkaAgent, cluster: ServedCluster
) -> None:
    at = ("--bootstrap-server", cluster.bootstrap)
    shown = kafka_agent.run_tool("kafka-features", *at, "describe")
    assert shown.status == 0, shown.output
    assert "Feature: kraft.version" in shown.output
    assert "FinalizedVersionLevel: 1" in shown.output
    for change in (
        ("upgrade", "--feature", "kraft.version=2"),
        ("downgrade", "--feature", "kraft.version=0"),
        ("upgrade", "--feature", "metadata.version=99"),
        ("downgrade", "--feature", "metadata.version=20"),
    ):
        run = kafka_agent.run_tool("kafka-features", *at, *change)
        assert run.status != 0, run.output
    same = kafka_agent.run_tool("kafka-features", *at, "upgrade", "--feature", "kraft.version=1")
    assert same.status == 0, same.output
    after = kafka_agent.run_tool("kafka-features", *at, "describe")
    levels = [[line.split("\t")[:4] for line in one.output.splitlines()] for one in (shown, after)]
    assert levels[0] == levels[1]


def test_fixed_voters_are_upgraded_to_those_in_the_log(
    kafka_agent: KafkaAgent, tmp_path: Path
) -> None:
    with FixedVoters() as fixed:
        nodes = [fixed.made(number, tmp_path) for number in NODES]
        start(*nodes)
        at = ("--bootstrap-server", fixed.bootstrap)
        refused = kafka_agent.run_tool(
            "kafka-metadata-quorum", *at, "remove-controller", "--controller-id", "3",
            "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ",
        )  # fmt: skip
        assert refused.status != 0 and "UnsupportedVersion" in refused.output, refused.output
        tried = kafka_agent.run_tool(
            "kafka-features", *at, "upgrade", "--feature", "kraft.version=1", "--dry-run"
        )
        assert tried.status == 0, tried.output
        assert level_of(kafka_agent, at, "kraft.version") == "0"
        upgraded = kafka_agent.run_tool(
            "kafka-features", *at, "upgrade", "--feature", "kraft.version=1"
        )
        assert upgraded.status == 0, upgraded.output
        until(lambda: level_of(kafka_agent, at, "kraft.version") == "1")
        for node in nodes:
            node.end()
        start(*nodes)  # their settings still name fixed voters: those in the log count
        until(lambda: level_of(kafka_agent, at, "kraft.version") == "1")


def level_of(agent: KafkaAgent, at: tuple[str, str], feature: str) -> str | None:
    """The level of a feature that is finalized, as one of the brokers tells."""
    run = agent.run_tool("kafka-features", *at, "describe")
    assert run.status == 0, run.output
    found = re.search(rf"Feature: {feature}\s.*FinalizedVersionLevel: (\S+)", run.output)
    return None if found is None else found[1]
