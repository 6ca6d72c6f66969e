"""Three nodes with fixed voters, as an operator writes and formats them for three machines."""

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rig.broker import NO_RETENTION_ROUND
from rig.held_port import HeldPort
from rig.served_cluster import PENSTOCK, READY, NodeProcess

NODES = (1, 2, 3)
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
OTHER_CLUSTER_ID = "07R5amHmR32VDA6jHkGbTA"


class FixedVoters:
    """Ports of three nodes, and nodes made on them: any number for each place. Use as a context:
    what still runs is killed at the end.
    """

    def __init__(self) -> None:
        self._clients = {number: HeldPort() for number in NODES}
        self._controllers = {number: HeldPort() for number in NODES}
        self._made: list[NodeProcess] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(number) for number in NODES)

    def address(self, number: int) -> str:
        return self._clients[number].address

    def controller(self, number: int) -> str:
        return self._controllers[number].address

    @property
    def voters(self) -> str:
        return ",".join(f"{number}@{self.controller(number)}" for number in NODES)

    def settings(self, number: int, directory: Path) -> dict[str, str]:
        listeners = f"PLAINTEXT://{self.address(number)},CONTROLLER://{self.controller(number)}"
        return {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(directory),
            **NO_RETENTION_ROUND,
        }

    def made(
        self,
        number: int,
        path: Path,
        given: Mapping[str, str | None] | None = None,
        *,
        cluster_id: str | None = CLUSTER_ID,
    ) -> NodeProcess:
        """A node with its file and its directory, formatted unless there is no cluster id. None
        takes a setting out.
        """
        file, directory = path / f"node-{number}.properties", path / f"node-{number}"
        settings: dict[str, str | None] = {**self.settings(number, directory), **(given or {})}
        lines = [f"{name}={value}\n" for name, value in settings.items() if value is not None]
        file.write_text("".join(lines))
        if cluster_id is not None:
            command = [PENSTOCK, "storage", "format", "--cluster-id", cluster_id]
            subprocess.run(
                [*command, "--config", str(file)], check=True, capture_output=True, timeout=120
            )
        node = NodeProcess(
            f"node-{number}", [PENSTOCK, "serve", "--config", str(file)], file.with_suffix(".log")
        )
        self._made.append(node)
        return node

    def __enter__(self) -> "FixedVoters":
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._made:
            if node.running:
                node.end(signal.SIGKILL)


def start(*nodes: NodeProcess) -> None:
    """Starts nodes together, and returns when all are ready."""
    before = [node.logged().count(READY) for node in nodes]
    for node in nodes:
        node.begin()
    for node, times in zip(nodes, before, strict=True):
        node.until_logged(READY, times=times + 1)
