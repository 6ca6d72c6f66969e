"""The last node of a cluster that is stopped knows that nobody is left to tell."""

import asyncio

import pytest

from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import configs, format_nodes
from penstock.sim.entropy import stream
from penstock.sim.host import Crash
from rig.machines import Machines

WAIT_S = 60


async def start_three(machines: Machines) -> None:
    laid_out = configs(3, {})
    format_nodes(machines, laid_out, stream(1, "formatting"))
    for name, config in laid_out.items():
        machines.start_node(name, config)
    async with asyncio.timeout(WAIT_S):
        for node in machines.nodes.values():
            await node.up.wait()


def test_the_active_controller_that_stops_last_does_not_wait_for_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(machines: Machines) -> None:
        await start_three(machines)
        leader = Inspection(machines.nodes).leader()
        order = sorted(machines.nodes, key=lambda name: name == leader)
        for name in order:
            node = machines.nodes[name]
            node.keep_down()
            node.stop()
            async with asyncio.timeout(0.5):  # of the simulation; an ask waits for a whole second
                while node.broker is not None:  # noqa: ASYNC110 - a life's end signals nothing
                    await asyncio.sleep(0.01)

    Machines().run(scenario)
    assert caplog.text.count("left=false") == 1


@pytest.mark.parametrize("stopped_at_once", [False, True])
def test_a_node_without_a_majority_stops_without_waiting_for_a_controller(
    stopped_at_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(machines: Machines) -> None:
        await start_three(machines)
        leader = Inspection(machines.nodes).leader()
        last = next(node for name, node in machines.nodes.items() if name != leader)
        for node in machines.nodes.values():
            node.keep_down()
            if node is not last:
                node.crash(Crash.KILL)
        if not stopped_at_once:
            await asyncio.sleep(5)
        last.stop()
        async with asyncio.timeout(0.5):  # of the simulation; an ask waits for a whole second
            while last.broker is not None:  # noqa: ASYNC110 - a life's end signals nothing
                await asyncio.sleep(0.01)

    Machines().run(scenario)
    assert caplog.text.count("left=false") == 1
