"""A controller whose process stood still fences nobody for what it did not hear meanwhile."""

import asyncio
from collections.abc import Iterable

import pytest

from penstock.model.identity import NodeId
from rig.machines import Machines
from rig.one_controller import BROKERS, CONTROLLER, start_nodes

SESSION_MS = 9_000
FENCED = "broker gone"


def fenced(machines: Machines, names: Iterable[str] = BROKERS) -> set[str]:
    parts = machines.nodes[CONTROLLER].parts
    assert parts is not None
    brokers = parts.local.image.brokers
    return {name for name in names if brokers[NodeId(int(name.removeprefix("node-")))].fenced}


@pytest.mark.parametrize("timers_first", [False, True], ids=["requests first", "timers first"])
@pytest.mark.parametrize("pause_s", [SESSION_MS / 1000 - 1, SESSION_MS / 1000, 60])
def test_brokers_that_live_are_not_fenced_after_a_pause(
    pause_s: float, timers_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(machines: Machines) -> None:
        await start_nodes(machines, broker_session_timeout_ms=str(SESSION_MS))
        for _ in range(5):  # a pause begins at any time between two heartbeats
            await asyncio.sleep(2.3)
            machines.loop.pause(CONTROLLER)
            await asyncio.sleep(pause_s)
            machines.loop.resume(CONTROLLER, timers_first=timers_first)
        await asyncio.sleep(SESSION_MS / 1000)
        assert fenced(machines) == set()

    Machines().run(scenario)
    assert FENCED not in caplog.text


def test_a_broker_that_ended_during_a_pause_is_fenced_after_its_session() -> None:
    async def scenario(machines: Machines) -> None:
        await start_nodes(machines, broker_session_timeout_ms=str(SESSION_MS))
        machines.loop.pause(CONTROLLER)
        await asyncio.sleep(60)
        machines.loop.resume(CONTROLLER)
        machines.loop.pause(BROKERS[0])
        await asyncio.sleep(2 * SESSION_MS / 1000)
        assert fenced(machines) == {BROKERS[0]}

    Machines().run(scenario)
