"""A cluster whose partitions are replicated, of Penstock or of Apache Kafka, each node a process.

    FOLDER/node-1/server.properties    the same file for both, but for what `Software` adds
                  metadata/            metadata.log.dir
                  data/                log.dirs: can be wiped alone

Voters are fixed (`controller.quorum.voters`): all nodes, or the first ones. By default all listen
on free ports of the loopback; with hosts of their own (see `namespaces.py`) each listens there.
Nodes reach each other by listeners of their own, which can have relays in front of them (see
`relays.py`).
"""

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rig.apache_kafka.java import java_command
from rig.broker import NO_RETENTION_ROUND
from rig.held_port import HeldPort
from rig.served_cluster import PENSTOCK, NodeProcess
from rig.served_cluster import READY as PENSTOCK_READY

CLUSTER_ID = "UGVuc3RvY2tSZXBsaWNhcw"
FORMAT_SECONDS_MAX = 240
CLIENT_PORT, REPLICATION_PORT, CONTROLLER_PORT = 9092, 9093, 9094  # where a host has one node
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "inter.broker.listener.name": "REPLICATION",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.create.topics.enable": "false",
    **NO_RETENTION_ROUND,
}
# A silent node is noticed soon, so that many faults fit into an hour. The same for both.
BRISK_SESSIONS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}


class Software(Protocol):
    """What a node runs."""

    name: str
    ready: str  # what a node logs when it serves
    recovered: re.Pattern[str]  # what it logs before, when all logs of partitions are recovered
    clean_end: int  # the status with which it ends after SIGTERM

    def format(self, properties: Path) -> None:
        """The directories that are not formatted yet."""

    def command(self, properties: Path) -> list[str]: ...

    def has_begun_to_scan(self, segment: Path, node: NodeProcess, *, logged: str) -> bool:
        """Whether a node that starts, and has logged this since, has come to the segment."""


class PenstockSoftware:
    name = "penstock"
    ready = PENSTOCK_READY
    recovered = re.compile(r"recovery segments_scanned=")
    clean_end = 0

    def format(self, properties: Path) -> None:
        command = [PENSTOCK, "storage", "format", "--ignore-formatted", "--cluster-id", CLUSTER_ID]
        run_quietly([*command, "--config", str(properties)])

    def command(self, properties: Path) -> list[str]:
        return [PENSTOCK, "serve", "--config", str(properties)]

    def has_begun_to_scan(self, segment: Path, node: NodeProcess, *, logged: str) -> bool:
        """Recovery opens a segment when it comes to it, and nothing does before."""
        return node.has_open(segment)


class KafkaSoftware:
    name = "kafka"
    ready = "Kafka Server started"
    recovered = re.compile(r"Loaded \d+ logs in ")
    clean_end = 128 + signal.SIGTERM  # a JVM ends so, however cleanly

    def __init__(self, jars: Path, *, heap_mib: int = 512, options: Sequence[str] = ()) -> None:
        self._jars = jars
        self._heap_mib = heap_mib
        self._options = tuple(options)  # of the JVM, in place of those that suit tests

    def format(self, properties: Path) -> None:
        command = [*self._java(properties.parent), "kafka.tools.StorageTool", "format"]
        run_quietly([*command, "--ignore-formatted", "-t", CLUSTER_ID, "-c", str(properties)])

    def command(self, properties: Path) -> list[str]:
        small = self._java(properties.parent)
        java = [small[0], *self._options, *small[-4:]] if self._options else small
        return [*java, "kafka.Kafka", str(properties)]

    def has_begun_to_scan(self, segment: Path, node: NodeProcess, *, logged: str) -> bool:
        """It opens all segments of a log first, and logs each one that it comes to."""
        log = f"partition={segment.parent.name}, dir={segment.parent.parent}"
        return f"[LogLoader {log}] Recovering unflushed segment {int(segment.stem)}." in logged

    def _java(self, folder: Path) -> list[str]:
        return java_command(self._jars, heap_mib=self._heap_mib, folder=folder, log_level="INFO")


class ReplicatedCluster:
    """Formatted, and not yet started. Use as a context: what still runs is killed at the end."""

    def __init__(
        self,
        software: Software,
        folder: Path,
        *,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        hosts: Mapping[int, str] | None = None,
        prefixes: Mapping[int, Sequence[str]] | None = None,  # of the commands of nodes
        relay: Callable[[int, str], str] | None = None,  # where others reach a node, for an address
        disks: int = 1,  # of each node, for its partitions
        voters: int | None = None,  # the first so many nodes; None: all
    ) -> None:
        self.software = software
        numbers = range(1, nodes + 1)
        self._voting = numbers[:voters]
        self._disks = disks
        self._held: list[HeldPort] = []
        self.addresses = {one: self._address(hosts, one, CLIENT_PORT) for one in numbers}
        self._replication = {one: self._address(hosts, one, REPLICATION_PORT) for one in numbers}
        self.controllers = {one: self._address(hosts, one, CONTROLLER_PORT) for one in numbers}
        self._relay = relay or (lambda _, address: address)
        self._voters = ",".join(
            f"{one}@{self._relay(one, self.controllers[one])}" for one in self._voting
        )
        self._homes = {one: folder.resolve() / f"node-{one}" for one in numbers}
        self.nodes: dict[int, NodeProcess] = {}
        for number, home in self._homes.items():
            for directory in (*self.disks(number), self.metadata(number)):
                directory.mkdir(parents=True)
            properties = self._properties(number)
            whole = {**self._settings_of(number), **(settings or {})}
            lines = [f"{name}={value}\n" for name, value in whole.items()]
            properties.write_text("".join(lines), encoding="utf-8")
            software.format(properties)
            prefix = (prefixes or {}).get(number, ())
            self.nodes[number] = NodeProcess(
                f"{software.name}-{number}",
                [*prefix, *software.command(properties)],
                home / "server.log",
            )

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def data(self, number: int) -> Path:
        """Holds the partitions of a node, and nothing else."""
        return self._homes[number] / "data"

    def disks(self, number: int) -> list[Path]:
        """All directories of `log.dirs`, `data` first."""
        others = [self._homes[number] / f"data-{disk}" for disk in range(2, self._disks + 1)]
        return [self.data(number), *others]

    def metadata(self, number: int) -> Path:
        return self._homes[number] / "metadata"

    def start(self, *numbers: int) -> None:
        """Starts these nodes, or all, and waits until they are ready."""
        wanted = numbers or tuple(self.nodes)
        ready = {one: self.nodes[one].logged().count(self.software.ready) for one in wanted}
        for number in wanted:
            self.nodes[number].begin()
        for number in wanted:
            self.nodes[number].until_logged(self.software.ready, times=ready[number] + 1)

    def wipe(self, number: int) -> None:
        """A new disk for the partitions of a node that is down, formatted as an operator does it;
        its metadata is kept.
        """
        assert not self.nodes[number].running
        shutil.rmtree(self.data(number))
        self.data(number).mkdir()
        self.software.format(self._properties(number))

    def __enter__(self) -> "ReplicatedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """All that still run."""
        for node in self.nodes.values():
            if node.running:
                node.end(signal.SIGKILL)

    def _properties(self, number: int) -> Path:
        return self._homes[number] / "server.properties"

    def _address(self, hosts: Mapping[int, str] | None, number: int, port: int) -> str:
        if hosts is not None:
            return f"{hosts[number]}:{port}"
        self._held.append(HeldPort())
        return self._held[-1].address

    def _settings_of(self, number: int) -> dict[str, str]:
        clients = f"PLAINTEXT://{self.addresses[number]}"
        replication, controller = self._replication[number], self.controllers[number]
        reached = self._relay(number, replication)
        listeners = f"{clients},REPLICATION://{replication}"
        votes = number in self._voting
        return {
            **SETTINGS,
            "process.roles": "broker,controller" if votes else "broker",
            "node.id": str(number),
            "controller.quorum.voters": self._voters,
            "listeners": f"{listeners},CONTROLLER://{controller}" if votes else listeners,
            "advertised.listeners": f"{clients},REPLICATION://{reached}",
            "log.dirs": ",".join(map(str, self.disks(number))),
            "metadata.log.dir": str(self.metadata(number)),
        }


def run_quietly(command: list[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_SECONDS_MAX)
    assert ended.returncode == 0, f"{command[-4:]}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
