"""The nodes of a test's cluster: laid out as `penstock serve --nodes` does it, on ports that nobody
else is given.
"""

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.model.identity import NodeId, id_text, random_id
from penstock.model.settings.broker import parse_broker
from penstock.node.cluster_layout import (
    CONTROLLERS,
    LaidOutNode,
    found_layout,
    lay_out,
    plan_layout,
    port_count,
    ports_from,
    write_layout,
)
from penstock.node.config import NodeConfig, node_directory
from penstock.node.stored_voters import read_voters
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy

HOST = "127.0.0.1"
FIRST_NODE = NodeId(1)


class HeldPorts:
    """Free ports that nobody else is given between two lives of a broker.

    The sockets are bound and do not listen. On Linux a node, which sets SO_REUSEADDR, can listen
    there all the same; elsewhere it could not, and that the ports stay free is likely.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def hold(self, count: int) -> list[int]:
        made = [socket.socket() for _ in range(count)]
        for one in made:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((HOST, 0))
        ports: list[int] = [one.getsockname()[1] for one in made]
        self._held.extend(made)
        if sys.platform != "linux":
            self.close()
        return ports

    def close(self) -> None:
        for one in self._held:
            one.close()
        self._held.clear()


def cluster_configs(
    nodes: int, *, data: Path, settings: Mapping[str, str], port: int | None, held: HeldPorts
) -> list[NodeConfig]:
    """The configurations of a cluster in a directory, which is laid out if it is empty. Where a
    cluster is, its controllers stay at their addresses, and everything else is as this run wants
    it. LayoutRefused if other nodes are there, or a setting is part of the layout.
    """
    disk, entropy = RealDisk(), RealEntropy()
    directory = str(data.absolute())
    found = found_layout(disk, directory, nodes)
    ports = list(ports_from(port, nodes)) if port is not None else held.hold(port_count(nodes))
    if found is not None:
        first = node_directory(directory, FIRST_NODE)
        voters = read_voters(disk, first, listener=CONTROLLERS)
        ports[nodes:] = [voter.port for voter in voters or ()]
    made = lay_out(nodes, data_directory=directory, ports=ports, host=HOST, settings=settings)
    if found is None:
        planned = plan_layout(
            made,
            cluster_id=id_text(random_id(entropy.random_bytes)),
            random_bytes=entropy.random_bytes,
            now_ms=RealClock().now_ms(),
        )
        write_layout(disk, made, planned)
    return [_config(one, data=directory) for one in made]


def _config(node: LaidOutNode, *, data: str) -> NodeConfig:
    return NodeConfig(
        node_id=node.node_id, data_directory=data, settings=parse_broker(node.settings)
    )
