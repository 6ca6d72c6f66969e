"""A cluster to which nodes are added, and from which they are removed, as docs/cluster.md says.

    FOLDER/node-1/server.properties    broker and controller; log.dirs is the folder itself
          node-1.log                   what the process wrote

The voters are in the metadata log (`kraft.version` 1). Whatever an operator does is done with the
`penstock` command, in a process of its own.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.client.admin.admin import Admin, ClusterDescription
from rig.client_cluster import run_with_cluster
from rig.cluster_questions import until
from rig.held_port import HeldPort
from rig.served_cluster import PENSTOCK, READY, NodeProcess, ServedCluster

COMMAND_SECONDS_MAX = 1_800
CONTROLLERS = "controller.quorum.bootstrap.servers"


class OperatedCluster:
    """Use as a context: what still runs is killed at the end."""

    def __init__(
        self, folder: Path, *, nodes: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder.resolve()
        given = {name.replace(".", "_"): value for name, value in (settings or {}).items()}
        first = ServedCluster(self.folder, nodes, **given)
        self._held: list[object] = [first]  # with their ports
        self.nodes: dict[int, NodeProcess] = dict(first.nodes)
        self.addresses: dict[int, str] = dict(first.addresses)
        self.controllers: dict[int, str] = dict(enumerate(first.controllers, 1))
        self._settings = {int(one.node_id): dict(one.settings) for one in first.laid_out}

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def data(self, number: int) -> Path:
        return self.folder / f"node-{number}"

    def properties(self, number: int) -> Path:
        """Beside the directory, which may be lost: a new node's, and one with a new disk."""
        beside = self.folder / f"node-{number}.properties"
        return beside if beside.exists() else self.data(number) / "server.properties"

    def start(self, *numbers: int) -> None:
        """Starts these nodes, or all, and waits until they are ready."""
        wanted = numbers or tuple(self.nodes)
        ready = {number: self.nodes[number].logged().count(READY) for number in wanted}
        for number in wanted:
            self.nodes[number].begin()
        for number in wanted:
            self.nodes[number].until_logged(READY, times=ready[number] + 1)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """`penstock COMMAND`, asking the nodes that run."""
        return subprocess.run(
            [PENSTOCK, *command],
            env={**os.environ, "PENSTOCK_BOOTSTRAP": self.bootstrap},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )

    def done(self, *command: str) -> str:
        ended = self.run(*command)
        assert ended.returncode == 0, f"penstock {' '.join(command)}: {ended.stderr[-2000:]}"
        return ended.stdout

    def told(self, *command: str) -> Any:
        return json.loads(self.done(*command, "--json"))

    # ---- nodes come and go

    def add(self, number: int, *, votes: bool = True) -> None:
        """A new machine: formatted, started, and added to the voters."""
        client, controller = HeldPort(), HeldPort()
        self._held += (client, controller)
        listeners = f"PLAINTEXT://{client.address}"
        if votes:
            listeners += f",CONTROLLER://{controller.address}"
        self._settings[number] = {
            **self._settings[min(self._settings)],
            "process.roles": "broker,controller" if votes else "broker",
            "node.id": str(number),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "log.dirs": str(self.data(number)),
        }
        self._format(number)
        command = [PENSTOCK, "serve", "--config", str(self.properties(number))]
        self.nodes[number] = NodeProcess(
            f"node-{number}", command, self.folder / f"node-{number}.log"
        )
        self.start(number)
        self.addresses[number] = client.address
        if votes:
            self.done("cluster", "add-controller", "--config", str(self.properties(number)))
            self.controllers[number] = controller.address

    def remove(self, number: int) -> None:
        """One that holds no replicas any more."""
        if number in self.controllers:
            self.done("cluster", "remove-controller", str(number))
            del self.controllers[number]
        node, address = self.nodes.pop(number), self.addresses.pop(number)
        assert node.end() == 0, f"{node.name}, {address}: {node.logged()[-2000:]}"
        until(f"node {number} is fenced", lambda: self._is_fenced(number))
        self.done("cluster", "unregister", str(number))
        del self._settings[number]

    def replace_disk(self, number: int) -> None:
        """The process has died with its disk. An empty disk takes its place."""
        self.nodes[number].end(signal.SIGKILL)
        address = self.addresses.pop(number)  # so that those are asked that live
        self.done("cluster", "remove-controller", str(number))
        del self.controllers[number]
        shutil.rmtree(self.data(number))
        self._format(number)
        command = [PENSTOCK, "serve", "--config", str(self.properties(number))]
        self.nodes[number] = NodeProcess(f"node-{number}", command, self.nodes[number].log)
        self.start(number)
        self.done("cluster", "add-controller", "--config", str(self.properties(number)))
        self.addresses[number] = address
        listeners = self._settings[number]["listeners"].split(",")
        self.controllers[number] = listeners[1].removeprefix("CONTROLLER://")

    def _format(self, number: int) -> None:
        """With the controllers that there are now: those of the first day may be gone."""
        settings = {**self._settings[number], CONTROLLERS: ",".join(self.controllers.values())}
        file = self.folder / f"node-{number}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.done(
            "storage", "format", "--config", str(file), "--no-initial-controllers",
            "--cluster-id", self._described().cluster_id,
        )  # fmt: skip

    def _described(self) -> ClusterDescription:
        described: ClusterDescription = run_with_cluster(
            self.bootstrap, lambda cluster: Admin(cluster).describe_cluster()
        )
        return described

    def _is_fenced(self, number: int) -> bool:
        brokers = self._described().brokers
        return [one.fenced for one in brokers if one.node_id == number] == [True]

    def __enter__(self) -> "OperatedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.running:
                node.end(signal.SIGKILL)
