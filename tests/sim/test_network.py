"""The simulated network delivers in order, late, and until it is told otherwise."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from penstock.sim.errors import ProcessKilled
from penstock.sim.frame_tap import FrameTap
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.network import SimNetwork
from penstock.sim.trace import Trace
from penstock.sim.wire import Wire
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Stream

PLACE = Address(host="server", port=1)


class Pair:
    """Both ends of one connection."""

    def __init__(self, wire: Wire, client: Stream, server: Stream, kill_switch: KillSwitch) -> None:
        self.wire = wire
        self.client = client
        self.server = server
        self.server_kill_switch = kill_switch


def connected(scenario: Callable[[Pair], Awaitable[None]], *, short_chance: float = 0.0) -> None:
    loop = SimLoop()  # type: ignore[abstract]
    wire = Wire(loop, Random(1), Trace(loop))
    wire.short_chance = short_chance

    async def work() -> None:
        kill_switch = KillSwitch()
        accepted: list[Stream] = []
        (await SimNetwork(wire, kill_switch, "server").bind(PLACE)).listen(accepted.append)
        client = await SimNetwork(wire, KillSwitch(), "client").connect(PLACE)
        await asyncio.sleep(0.01)
        await scenario(Pair(wire, client, accepted[0], kill_switch))

    try:
        loop.run_until_complete(work())
    finally:
        loop.close()


async def receive(stream: Stream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        view = memoryview(bytearray(count - len(data)))
        got = await stream.receive_into(view)
        if got == 0:
            break
        data += view[:got]
    return data


def test_bytes_arrive_in_order_however_they_are_cut() -> None:
    data = bytes(range(256)) * 1000

    async def scenario(pair: Pair) -> None:
        sending = asyncio.ensure_future(pair.client.send([data]))
        assert await receive(pair.server, len(data)) == data
        await sending

    connected(scenario, short_chance=0.5)


def test_a_sender_waits_for_a_peer_that_does_not_read() -> None:
    async def scenario(pair: Pair) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await pair.client.send([bytes(10_000_000)])

    connected(scenario)


def test_a_close_is_told_after_what_was_sent() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.client.send([b"last words"])
        pair.client.close()
        assert await receive(pair.server, 100) == b"last words"

    connected(scenario)


def test_a_reset_is_told_to_both_ends() -> None:
    async def scenario(pair: Pair) -> None:
        waiting = asyncio.ensure_future(receive(pair.server, 1))
        await asyncio.sleep(0)
        pair.wire.links[0].reset()
        with pytest.raises(NetworkError):
            await waiting
        with pytest.raises(NetworkError):
            await pair.client.send([b"?"])

    connected(scenario)


def test_a_half_open_connection_takes_bytes_and_tells_nothing() -> None:
    async def scenario(pair: Pair) -> None:
        pair.wire.links[0].silence()
        await pair.client.send([b"hello?"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000):
                await receive(pair.server, 1)

    connected(scenario)


def test_a_machine_that_came_back_resets_what_it_does_not_know() -> None:
    async def scenario(pair: Pair) -> None:
        pair.wire.power_lost(PLACE.host)
        await pair.client.send([b"still there?"])
        pair.wire.machine_starts(PLACE.host)
        await pair.client.send([b"still there?"])
        with pytest.raises(NetworkError):
            await receive(pair.client, 1)

    connected(scenario)


def test_a_crashed_process_sends_nothing_more() -> None:
    async def scenario(pair: Pair) -> None:
        pair.server_kill_switch.trip()
        with pytest.raises(ProcessKilled):
            await pair.server.send([b"from beyond"])

    connected(scenario)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_tap_counts_frames_across_any_cut(cut: int) -> None:
    frames = b"".join(len(body).to_bytes(4) + body for body in (b"one", b"three", b"seventeen"))
    tap = FrameTap()
    pieces = [frames[at : at + cut] for at in range(0, len(frames), cut)]
    assert sum(tap.frames_in(piece) for piece in pieces) == 3
