"""What the manifests run in three pods runs here, on the loopback: the nodes form a quorum."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.cluster_questions import until
from rig.held_port import HeldPort
from rig.ops_files import manifest
from rig.scraping import scrape, url_in
from rig.served_cluster import PENSTOCK, READY, NodeProcess

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
WAIT_SECONDS = 120
ORDINALS = (0, 1, 2)
STATEFUL_SET = manifest("StatefulSet")
TEMPLATE = STATEFUL_SET["spec"]["template"]["spec"]
CONFIG = manifest("ConfigMap")["data"]


class Pods:
    """Directories stand in for volumes, ports of the loopback for those of pods."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients = {ordinal: HeldPort() for ordinal in ORDINALS}
        self._controllers = {ordinal: HeldPort() for ordinal in ORDINALS}
        self.nodes: dict[int, NodeProcess] = {}

    def address(self, ordinal: int) -> tuple[str, int]:
        return "127.0.0.1", self._clients[ordinal].number

    def init(
        self, ordinal: int, *, cluster_id: str = CLUSTER_ID
    ) -> subprocess.CompletedProcess[str]:
        """The init container, with the file and the variables that it is given."""
        for name in ("config", "settings", "data"):
            self._volume(ordinal, name).mkdir(parents=True, exist_ok=True)
        properties = self._on_volumes(ordinal, CONFIG["server.properties"])
        (self._volume(ordinal, "config") / "server.properties").write_text(properties)
        [container] = TEMPLATE["initContainers"]
        given = {
            "metadata.name": f"{STATEFUL_SET['metadata']['name']}-{ordinal}",
            "metadata.namespace": STATEFUL_SET["metadata"]["namespace"],
            "spec.nodeName": f"machine-{ordinal}",
            "cluster-id": cluster_id,
        }
        environment = {"PATH": f"{Path(PENSTOCK).parent}{os.pathsep}{os.environ['PATH']}"}
        for one in container["env"]:
            [source] = one["valueFrom"].values()
            environment[one["name"]] = given[source.get("fieldPath") or source["key"]]
        command = [*container["command"], *container["args"]]
        return subprocess.run(
            [self._on_volumes(ordinal, word) for word in command],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )

    def begin(self, ordinal: int) -> None:
        """The container itself, after names and ports of pods have become those of this machine."""
        file = self._volume(ordinal, "settings") / "server.properties"
        file.write_text(self._on_loopback(ordinal, file.read_text()))
        [container] = TEMPLATE["containers"]
        program, *words = [self._on_volumes(ordinal, word) for word in container["command"]]
        assert program == "penstock"
        log = self._folder / f"{ordinal}.log"
        self.nodes[ordinal] = NodeProcess(f"penstock-{ordinal}", [PENSTOCK, *words], log)
        self.nodes[ordinal].begin()

    def _volume(self, ordinal: int, name: str) -> Path:
        return self._folder / f"pod-{ordinal}" / name

    def _on_volumes(self, ordinal: int, text: str) -> str:
        mounts = {
            mount["mountPath"]: mount["name"]
            for container in (*TEMPLATE["initContainers"], *TEMPLATE["containers"])
            for mount in container["volumeMounts"]
        }
        paths = "|".join(map(re.escape, mounts))
        return re.sub(
            rf"(?<![\w/])({paths})(?=/)",
            lambda found: str(self._volume(ordinal, mounts[found[1]])),
            text,
        )

    def _on_loopback(self, ordinal: int, text: str) -> str:
        name, namespace = STATEFUL_SET["spec"]["serviceName"], STATEFUL_SET["metadata"]["namespace"]
        for other in ORDINALS:
            host = f"penstock-{other}.{name}.{namespace}.svc.cluster.local"
            text = text.replace(f"{host}:9092", self._clients[other].address)
            text = text.replace(f"{host}:9093", self._controllers[other].address)
        assert "cluster.local" not in text
        text = text.replace("0.0.0.0:9092", self._clients[ordinal].address)
        text = text.replace("0.0.0.0:9093", self._controllers[ordinal].address)
        return text.replace("0.0.0.0:9404", "127.0.0.1:0")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    pods = Pods(tmp_path)
    yield pods
    for node in pods.nodes.values():
        if node.running:
            node.end(signal.SIGKILL)


def is_open(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_three_pods_form_a_quorum_and_stop_cleanly(pods: Pods) -> None:
    for ordinal in ORDINALS:
        done = pods.init(ordinal)
        assert done.returncode == 0, done.stderr
        assert f"for node {ordinal} of cluster {CLUSTER_ID}" in done.stdout
    pods.begin(0)
    pods.nodes[0].until_logged("wait")
    assert not is_open(pods.address(0)), "ready, as a probe sees it, and without a quorum"
    for ordinal in ORDINALS[1:]:
        pods.begin(ordinal)
    for node in pods.nodes.values():
        node.until_logged(READY)
    assert all(is_open(pods.address(ordinal)) for ordinal in ORDINALS)
    urls = [url_in(node.logged()) for node in pods.nodes.values()]

    def formed() -> bool:
        told = [scrape(url) for url in urls]
        active = "kafka_controller_kafkacontroller_activecontrollercount"
        brokers = "kafka_controller_kafkacontroller_activebrokercount"
        return (
            {one("kafka_server_raftmetrics_number_of_voters") for one in told} == {3}
            and sum(one(active) for one in told) == 1
            and {one(brokers) for one in told} == {3}
        )

    until("three voters, one active controller, three brokers", formed)
    for node in pods.nodes.values():
        assert node.end(signal.SIGTERM) == 0, node.logged()[-2000:]


def test_a_pod_that_starts_again_keeps_its_disk(pods: Pods) -> None:
    assert pods.init(1).returncode == 0
    again = pods.init(1)
    assert again.returncode == 0, again.stderr
    assert "formatted already" in again.stdout


def test_an_id_that_was_not_filled_in_is_refused(pods: Pods) -> None:
    refused = pods.init(0, cluster_id=CONFIG["cluster-id"])
    assert refused.returncode != 0
    assert len(refused.stderr.splitlines()) == 1
    assert "--cluster-id" in refused.stderr


def test_a_fourth_replica_is_refused(pods: Pods) -> None:
    """It would be a controller that nobody knows; docs/deploying.md says what to do instead."""
    refused = pods.init(3)
    assert refused.returncode != 0
    assert len(refused.stderr.splitlines()) == 1
    assert "controller.quorum.voters" in refused.stderr
