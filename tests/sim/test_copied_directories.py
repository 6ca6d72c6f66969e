"""A copy of a voter's directory is started beside it, or a directory is taken for another one."""

import asyncio
from functools import partial

import pytest

from penstock.broker.controller.membership import NotRegistered
from penstock.broker.controller.quorum_driver import NodeTwice
from penstock.node.build import open_node
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import CONTROLLER_PORT, address, configs, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.sim_cluster import node_config
from penstock.world.ports import World
from rig.machines import Machines

WAIT_S = 60
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


async def start_cluster(machines: Machines) -> dict[str, NodeConfig]:
    laid_out = configs(3, {})
    format_nodes(machines, laid_out, stream(1, "formatting"), cluster_id=CLUSTER_ID)
    for name, config in laid_out.items():
        machines.start_node(name, config)
    async with asyncio.timeout(WAIT_S):
        for node in machines.nodes.values():
            await node.up.wait()
    return laid_out


async def ending_of_copy(machines: Machines, config: NodeConfig) -> BaseException | None:
    """Of the same node on another machine, in a directory that knows nothing."""
    copied = dict(config.settings.given)
    copied["listeners"] = f"PLAINTEXT://{address('copy')},CONTROLLER://copy:{CONTROLLER_PORT}"
    copy = {"copy": node_config(copied)}
    format_nodes(machines, copy, stream(1, "copying"), cluster_id=CLUSTER_ID)
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    async def run(world: World) -> None:
        node = Node(partial(open_node, world, copy["copy"]))
        try:
            await node.start()
            ended.set_result(await node.failed())
        except Exception as error:
            ended.set_result(error)

    machines.start("copy", run)
    async with asyncio.timeout(WAIT_S):
        return await ended


def test_a_voter_that_runs_twice_is_logged_and_its_second_broker_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(machines: Machines) -> None:
        laid_out = await start_cluster(machines)
        leader = Inspection(machines.nodes).leader()
        await asyncio.sleep(60)
        assert "processes=2" not in caplog.text
        config = next(config for name, config in laid_out.items() if name != leader)
        failure = await ending_of_copy(machines, config)
        assert isinstance(failure, NotRegistered)
        assert str(failure).startswith(f"node.id={config.node_id} is taken")
        assert str(failure).endswith("gave up after 18 s")
        assert caplog.text.count(f"quorum voter={config.node_id} processes=2") == 1

    Machines().run(scenario)


def test_a_copy_of_the_leader_ends() -> None:
    async def scenario(machines: Machines) -> None:
        laid_out = await start_cluster(machines)
        leader = Inspection(machines.nodes).leader()
        assert leader is not None
        config = laid_out[leader]
        failure = await ending_of_copy(machines, config)
        assert isinstance(failure, NodeTwice)
        assert str(failure).startswith(f"node {config.node_id} leads the quorum in epoch")

    Machines().run(scenario)
