"""A cluster of Apache Kafka, each node a process that is broker and voter, on free ports."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rig.apache_kafka.broker import CLUSTER_ID, START_SECONDS_MAX
from rig.apache_kafka.java import java_command
from rig.held_port import HeldPort
from rig.served_cluster import NodeProcess

READY = "Kafka Server started"
HEAP_MIB = 512
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class KafkaCluster:
    """Formatted, and not yet started. Use as a context: what still runs is killed at the end."""

    def __init__(
        self,
        *,
        jars: Path,
        folder: Path,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = (),  # of the JVM, in place of those that suit tests
    ) -> None:
        numbers = range(1, nodes + 1)
        self._clients = {number: HeldPort() for number in numbers}
        self._controllers = {number: HeldPort() for number in numbers}
        self.addresses = {number: port.address for number, port in self._clients.items()}
        self.nodes: dict[int, NodeProcess] = {}
        for number in numbers:
            home = folder / f"node-{number}"
            home.mkdir(parents=True)
            properties = home / "server.properties"
            properties.write_text(self._properties(number, home, settings or {}), encoding="utf-8")
            small = java_command(jars, heap_mib=HEAP_MIB, folder=home, log_level="INFO")
            format_command = [*small, "kafka.tools.StorageTool", "format"]
            format_command += ["-t", CLUSTER_ID, "-c", str(properties)]
            subprocess.run(
                format_command, check=True, capture_output=True, timeout=START_SECONDS_MAX
            )
            java = [small[0], *options, *small[-4:]] if options else small
            command = [*java, "kafka.Kafka", str(properties)]
            self.nodes[number] = NodeProcess(f"kafka-{number}", command, home / "server.log")

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def start(self, *numbers: int) -> None:
        """Starts these nodes, or all, and waits until they are ready."""
        wanted = numbers or tuple(self.nodes)
        ready = {number: self.nodes[number].logged().count(READY) for number in wanted}
        for number in wanted:
            self.nodes[number].begin()
        for number in wanted:
            self.nodes[number].until_logged(READY, times=ready[number] + 1)

    def __enter__(self) -> "KafkaCluster":
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.running:
                node.end(signal.SIGKILL)

    def _properties(self, number: int, home: Path, settings: Mapping[str, str]) -> str:
        voters = (f"{one}@{port.address}" for one, port in self._controllers.items())
        clients, controller = self.addresses[number], self._controllers[number].address
        whole = {
            **SETTINGS,
            "node.id": str(number),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{clients}",
            "log.dirs": f"{home}/data",
            **settings,
        }
        return "".join(f"{name}={value}\n" for name, value in whole.items())
