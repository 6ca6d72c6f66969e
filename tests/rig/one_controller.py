"""A simulated cluster of one controller, which is the only voter, and two brokers."""

import asyncio

from penstock.sim.cluster.layout import CLIENT_PORT, CONTROLLER_PORT, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.sim_cluster import node_config
from rig.machines import Machines

WAIT_S = 60
CONTROLLER = "node-1"
BROKERS = ("node-2", "node-3")


async def start_nodes(machines: Machines, **settings: str) -> None:
    """Returns when all of them are up."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    laid_out = {
        name: node_config({**_properties(name), **given}) for name in (CONTROLLER, *BROKERS)
    }
    format_nodes(machines, laid_out, stream(1, "formatting"))
    for host, config in laid_out.items():
        machines.start_node(host, config)
    for node in machines.nodes.values():
        async with asyncio.timeout(WAIT_S):
            await node.up.wait()


def _properties(name: str) -> dict[str, str]:
    controls = name == CONTROLLER
    listener = f"CONTROLLER://{name}:{CONTROLLER_PORT}"
    return {
        "node.id": name.removeprefix("node-"),
        "process.roles": "controller" if controls else "broker",
        "listeners": listener if controls else f"PLAINTEXT://{name}:{CLIENT_PORT}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{CONTROLLER}:{CONTROLLER_PORT}",
    }
