"""The nodes of a simulated cluster: their settings, and their directories as they are formatted.

Each node is broker and controller, or the first few alone are controllers too. A node is on a
machine of its own that has the node's name.
"""

from collections.abc import Mapping
from random import Random

from penstock.model.identity import NodeId, id_text, random_id
from penstock.model.settings.listener import DirectoryVoter
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


def configs(
    nodes: int,
    settings: Mapping[str, str],
    *,
    voters: int | None = None,
    voters_in_log: bool = False,
) -> dict[str, NodeConfig]:
    """By machine. The first `voters` nodes are controllers too; all of them unless that is given.
    They are in the settings of each node (`kraft.version` 0), or in the metadata log, with the ids
    of their directories (1).
    """
    voters = nodes if voters is None else voters
    assert 0 < voters <= nodes, (voters, nodes)
    return {
        machine(number): node_config(
            {**_properties(number, nodes, voters, voters_in_log=voters_in_log), **settings}
        )
        for number in range(1, nodes + 1)
    }


def format_nodes(
    cluster: SimCluster,
    nodes: Mapping[str, NodeConfig],
    chance: Random,
    *,
    cluster_id: str | None = None,
) -> None:
    """As `penstock storage format` does on each machine; for a new cluster unless one is named."""
    if cluster_id is None:
        cluster_id = id_text(random_id(chance.randbytes))
    voters = tuple(
        DirectoryVoter(
            node_id=config.node_id,
            host=host,
            port=CONTROLLER_PORT,
            directory_id=random_id(chance.randbytes),
        )
        for host, config in nodes.items()
        if config.cluster.has_dynamic_voters
    )
    for host, config in nodes.items():
        request = FormatRequest(
            node=config.cluster,
            cluster_id=cluster_id,
            log_directories=config.log_directories,
            metadata_directory=config.metadata_directory,
            voters=voters,
            min_insync_replicas=config.settings.given.get("min.insync.replicas"),
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


def _properties(number: int, nodes: int, voters: int, *, voters_in_log: bool) -> dict[str, str]:
    host = machine(number)
    clients = f"PLAINTEXT://{address(host)}"
    if nodes == 1:
        return {"node.id": str(number), "listeners": clients}
    places = {one: f"{machine(one)}:{CONTROLLER_PORT}" for one in range(1, voters + 1)}
    if voters_in_log:
        quorum = "controller.quorum.bootstrap.servers", ",".join(places.values())
    else:
        named = (f"{one}@{place}" for one, place in places.items())
        quorum = "controller.quorum.voters", ",".join(named)
    votes = number <= voters
    return {
        "node.id": str(number),
        "process.roles": "broker,controller" if votes else "broker",
        "listeners": f"{clients},CONTROLLER://{host}:{CONTROLLER_PORT}" if votes else clients,
        "controller.listener.names": "CONTROLLER",
        quorum[0]: quorum[1],
    }
