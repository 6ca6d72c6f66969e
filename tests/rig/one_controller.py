"""A simulated cluster of one controller, which is the only voter and may be a broker as well, and
two brokers.
"""

import asyncio

from penstock.sim.cluster.layout import CLIENT_PORT, CONTROLLER_PORT, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.sim_cluster import node_config
from rig.machines import Machines

WAIT_S = 60
CONTROLLER = "node-1"
BROKERS = ("node-2", "node-3")


async def start_nodes(
    machines: Machines, *, controller_roles: str = "controller", **settings: str
) -> None:
    """Returns when all of them are up."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    roles = {CONTROLLER: controller_roles, **dict.fromkeys(BROKERS, "broker")}
    laid_out = {
        name: node_config({**_properties(name, one), **given}) for name, one in roles.items()
    }
    format_nodes(machines, laid_out, stream(1, "formatting"))
    for host, config in laid_out.items():
        machines.start_node(host, config)
    for node in machines.nodes.values():
        async with asyncio.timeout(WAIT_S):
            await node.up.wait()


def _properties(name: str, roles: str) -> dict[str, str]:
    listeners = {
        "broker": f"PLAINTEXT://{name}:{CLIENT_PORT}",
        "controller": f"CONTROLLER://{name}:{CONTROLLER_PORT}",
    }
    return {
        "node.id": name.removeprefix("node-"),
        "process.roles": roles,
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{CONTROLLER}:{CONTROLLER_PORT}",
    }
