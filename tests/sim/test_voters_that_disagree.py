"""One node has other voters in its settings than the rest: it is the one that ends."""

import asyncio
from functools import partial

import pytest

from penstock.broker.controller.voter_agreement import DifferentVoters
from penstock.node.build import open_node
from penstock.node.lifecycle import Node
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import CONTROLLER_PORT, address, configs, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.sim_cluster import node_config
from penstock.world.ports import World
from rig.machines import Machines

WAIT_S = 60


def voters_of(*numbers: int) -> str:
    return ",".join(f"{number}@node-{number}:{CONTROLLER_PORT}" for number in numbers)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("wrong", "theirs"),
    [
        ("node-3", (2, 3, 4)),
        ("node-3", (3,)),
        ("node-3", (1, 2, 3, 4)),
        ("node-4", (1, 2, 4)),
        ("node-4", (1, 2, 3, 4)),
    ],
)
def test_the_node_with_other_voters_ends_and_the_rest_goes_on(
    wrong: str, theirs: tuple[int, ...], seed: int
) -> None:
    """The wrong one is there first, with one of the others, and may win the first elections."""

    async def scenario(machines: Machines) -> None:
        laid_out = configs(3, {})
        laid_out[wrong] = node_config(
            {
                "node.id": wrong.removeprefix("node-"),
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://{address(wrong)},CONTROLLER://{wrong}:{CONTROLLER_PORT}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters_of(*theirs),
            }
        )
        format_nodes(machines, laid_out, stream(1, "formatting"))
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        async def misconfigured(world: World) -> None:
            node = Node(partial(open_node, world, laid_out[wrong]))
            try:
                await node.start()
                ended.set_result(await node.failed())
            except Exception as error:
                ended.set_result(error)

        machines.start(wrong, misconfigured)
        machines.start_node("node-2", laid_out["node-2"])
        await asyncio.sleep(10)
        machines.start_node("node-1", laid_out["node-1"])
        async with asyncio.timeout(WAIT_S):
            for node in machines.nodes.values():
                await node.up.wait()
            failure = await ended
        assert isinstance(failure, DifferentVoters), failure
        assert "must be the same on all nodes" in str(failure)
        assert Inspection(machines.nodes).leader() in machines.nodes

    Machines(seed).run(scenario)
