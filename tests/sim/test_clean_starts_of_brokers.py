"""A broker that was killed registers as one that lost nothing; after a power loss it does not."""

import asyncio
import logging

import pytest

from penstock.sim.host import Crash
from rig.machines import Machines
from rig.one_controller import BROKERS, start_nodes

BROKER = BROKERS[0]
SESSION_S = 9  # broker.session.timeout.ms, by default


def registrations(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Epoch and previous epoch of each registration of the broker."""
    told = [one.message.split() for one in caplog.records if "registered broker=2" in one.message]
    return [(line[2].partition("=")[2], line[3].partition("=")[2]) for line in told]


async def restart(machines: Machines, crash: Crash | None) -> None:
    node = machines.nodes[BROKER]
    if crash is None:
        node.stop()
    else:
        node.crash(crash)
    async with asyncio.timeout(60):
        while node.up.is_set():  # noqa: ASYNC110 - its end is told nowhere
            await asyncio.sleep(0.01)
        await node.up.wait()


def test_what_a_broker_says_about_its_last_life(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(machines: Machines) -> None:
        await start_nodes(machines)
        for crash in (Crash.KILL, None, Crash.KILL, Crash.POWER_LOSS, Crash.KILL):
            await restart(machines, crash)

    with caplog.at_level(logging.INFO):
        Machines().run(scenario)
    [first, killed, stopped, killed_again, powerless, last] = registrations(caplog)
    assert first[1] == "unknown"  # a new directory
    assert killed[1] == first[0]
    assert stopped[1] == killed[0]
    assert killed_again[1] == stopped[0]
    assert powerless[1] == "unknown"
    assert last[1] == powerless[0]


def test_a_broker_that_lost_power_is_back_before_its_session_has_expired() -> None:
    """Nothing tells the controller that its connection is dead; that nobody listens there does."""

    async def scenario(machines: Machines) -> None:
        await start_nodes(machines)
        await asyncio.sleep(SESSION_S)
        began_s = asyncio.get_running_loop().time()
        await restart(machines, Crash.POWER_LOSS)
        assert asyncio.get_running_loop().time() - began_s < SESSION_S / 2

    Machines().run(scenario)
