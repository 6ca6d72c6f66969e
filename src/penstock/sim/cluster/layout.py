"""The nodes of a simulated cluster: their settings, and their directories as they are formatted.

Each node is broker and controller, on a machine of its own that has the node's name.
"""

from collections.abc import Mapping
from random import Random

from penstock.model.identity import NodeId, id_text, random_id
from penstock.node.config import NodeConfig
from penstock.node.formatting import FormatRequest, plan_format, write_format
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.sim_cluster import SimCluster, node_config
from penstock.world.ports import Address

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093


def machine(number: int) -> str:
    return f"node-{number}"


def machines(nodes: int) -> dict[NodeId, str]:
    """By the ids of their nodes."""
    return {NodeId(number): machine(number) for number in range(1, nodes + 1)}


def address(host: str) -> Address:
    """Where clients reach the node on that machine."""
    return Address(host=host, port=CLIENT_PORT)


def configs(nodes: int, settings: Mapping[str, str]) -> dict[str, NodeConfig]:
    """By machine."""
    return {
        machine(number): node_config({**_properties(number, nodes), **settings})
        for number in range(1, nodes + 1)
    }


def format_nodes(cluster: SimCluster, nodes: Mapping[str, NodeConfig], chance: Random) -> None:
    """As `penstock storage format` does on each machine."""
    cluster_id = id_text(random_id(chance.randbytes))
    for host, config in nodes.items():
        request = FormatRequest(
            node=config.cluster,
            cluster_id=cluster_id,
            log_directories=config.log_directories,
            metadata_directory=config.metadata_directory,
        )
        world = cluster.host(host).world(KillSwitch())
        planned = plan_format(
            request,
            dict.fromkeys(request.directories),
            random_bytes=chance.randbytes,
            now_ms=world.clock.now_ms(),
        )
        for directory in planned:
            write_format(world.disk, directory)


def _properties(number: int, nodes: int) -> dict[str, str]:
    host = machine(number)
    clients = f"PLAINTEXT://{address(host)}"
    if nodes == 1:
        return {"node.id": str(number), "listeners": clients}
    voters = ",".join(f"{one}@{machine(one)}:{CONTROLLER_PORT}" for one in range(1, nodes + 1))
    return {
        "node.id": str(number),
        "process.roles": "broker,controller",
        "listeners": f"{clients},CONTROLLER://{host}:{CONTROLLER_PORT}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
    }
