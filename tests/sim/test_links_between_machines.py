"""What machines learn of each other: by refusals, resets and silence, one direction at a time."""

import asyncio

import pytest

from penstock.sim.errors import ProcessKilled
from penstock.sim.host import Crash
from penstock.sim.link import WINDOW_BYTES
from penstock.world.errors import ConnectionRefused, NetworkError
from penstock.world.ports import Stream, World
from rig.machines import PORT, Machines, address, for_ever, listening, receive


class Inbox:
    """A process that keeps what it receives, and its connections."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.streams: list[Stream] = []

    async def main(self, world: World) -> None:
        async with listening(world, self._serve):
            await for_ever(world)

    async def _serve(self, stream: Stream) -> None:
        self.streams.append(stream)
        while data := await _some(stream):
            self.got.append(data)


async def _some(stream: Stream) -> bytes:
    view = memoryview(bytearray(1_000))
    try:
        return bytes(view[: await stream.receive_into(view)])
    except NetworkError:
        return b""


async def connect(machines: Machines, source: str, target: str) -> Stream:
    return await machines.world(source).network.connect(address(target))


def test_a_machine_is_reached_by_its_name_on_each_of_its_ports() -> None:
    async def scenario(machines: Machines) -> None:
        served: list[int] = []

        async def main(world: World) -> None:
            async def on_first(stream: Stream) -> None:
                served.append(PORT)

            async def on_second(stream: Stream) -> None:
                served.append(PORT + 1)

            async with listening(world, on_first), listening(world, on_second, port=PORT + 1):
                await for_ever(world)

        machines.start("node-1", main)
        machines.start("node-2", main)
        await asyncio.sleep(0.1)
        world = machines.world("client")
        for name, port in (("node-1", PORT), ("node-2", PORT + 1), ("node-1", PORT + 1)):
            stream = await world.network.connect(address(name, port))
            assert stream.peer == address(name, port)
            await asyncio.sleep(0.1)
        assert served == [PORT, PORT + 1, PORT + 1]
        with pytest.raises(NetworkError, match="cannot resolve node-9"):
            await world.network.connect(address("node-9"))

    Machines().run(scenario)


def test_a_machine_without_listener_refuses_at_once() -> None:
    async def scenario(machines: Machines) -> None:
        machines.start("a", for_ever)
        with pytest.raises(ConnectionRefused):
            await connect(machines, "b", "a")
        assert machines.loop.now_us < 10_000

    Machines().run(scenario)


def test_a_machine_without_power_does_not_answer_until_it_is_up() -> None:
    async def scenario(machines: Machines) -> None:
        inbox = Inbox()
        process = machines.start("a", inbox.main)
        await asyncio.sleep(0.1)
        process.keep_down()
        process.crash(Crash.POWER_LOSS)
        connecting = asyncio.ensure_future(connect(machines, "b", "a"))
        await asyncio.sleep(20)
        assert not connecting.done()
        process.let_start()
        await connecting
        assert machines.loop.now_us < 40_000_000

    Machines().run(scenario)


def test_a_connection_to_a_machine_that_stays_away_times_out() -> None:
    async def scenario(machines: Machines) -> None:
        process = machines.start("a", for_ever)
        await asyncio.sleep(0.1)
        process.keep_down()
        process.crash(Crash.POWER_LOSS)
        await asyncio.sleep(0.1)
        with pytest.raises(NetworkError, match="timed out") as told:
            await connect(machines, "b", "a")
        assert not isinstance(told.value, ConnectionRefused)
        assert machines.loop.now_us > 120_000_000

    Machines().run(scenario)


def test_peers_of_a_killed_process_are_reset_at_once_and_refused_afterwards() -> None:
    async def scenario(machines: Machines) -> None:
        process = machines.start("a", Inbox().main)
        await asyncio.sleep(0.1)
        stream = await connect(machines, "b", "a")
        process.keep_down()
        process.crash(Crash.KILL)
        began_us = machines.loop.now_us
        with pytest.raises(NetworkError, match="reset"):
            await receive(stream, 1)
        assert machines.loop.now_us - began_us < 10_000
        with pytest.raises(ConnectionRefused):
            await connect(machines, "b", "a")

    Machines().run(scenario)


def test_servers_of_a_killed_client_process_are_reset_too() -> None:
    async def scenario(machines: Machines) -> None:
        inbox = Inbox()
        told: list[str] = []

        async def server(world: World) -> None:
            async def serve(stream: Stream) -> None:
                try:
                    await receive(stream, 1)
                except NetworkError as error:
                    told.append(str(error))

            async with listening(world, serve):
                await for_ever(world)

        async def main(world: World) -> None:
            await world.network.connect(address("a"))
            await for_ever(world)

        machines.start("a", server)
        await asyncio.sleep(0.1)
        process = machines.start("b", main)
        await asyncio.sleep(0.1)
        process.keep_down()
        process.crash(Crash.KILL)
        await asyncio.sleep(0.1)
        assert len(told) == 1
        assert "reset" in told[0]
        assert inbox.got == []

    Machines().run(scenario)


def test_what_a_process_sent_before_it_was_killed_arrives_before_the_reset() -> None:
    async def scenario(machines: Machines) -> None:
        inbox = Inbox()

        async def main(world: World) -> None:
            stream = await world.network.connect(address("a"))
            await stream.send([b"last words"])
            process.keep_down()
            process.crash(Crash.KILL)

        machines.start("a", inbox.main)
        await asyncio.sleep(0.1)
        process = machines.start("b", main)
        await asyncio.sleep(0.1)
        assert inbox.got == [b"last words"]

    Machines().run(scenario)


def test_peers_of_a_machine_without_power_learn_nothing_until_it_is_up_and_they_send() -> None:
    async def scenario(machines: Machines) -> None:
        inbox = Inbox()
        process = machines.start("a", inbox.main)
        await asyncio.sleep(0.1)
        stream = await connect(machines, "b", "a")
        process.keep_down()
        process.crash(Crash.POWER_LOSS)
        await asyncio.sleep(0.1)
        await stream.send([b"anybody?"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await receive(stream, 1)
        process.let_start()
        await asyncio.sleep(1)
        await stream.send([b"anybody?"])
        with pytest.raises(NetworkError, match="reset"):
            await receive(stream, 1)
        assert inbox.got == []

    Machines().run(scenario)


def test_a_partition_delays_bytes_in_order_and_leaves_others_alone() -> None:
    async def scenario(machines: Machines) -> None:
        inbox, other = Inbox(), Inbox()
        machines.start("a", inbox.main)
        machines.start("c", other.main)
        await asyncio.sleep(0.1)
        stream = await connect(machines, "b", "a")
        aside = await connect(machines, "b", "c")
        await stream.send([b"1"])
        await asyncio.sleep(0.1)
        machines.wire.part(["a"], ["b"])
        await stream.send([b"2"])
        await aside.send([b"aside"])
        await asyncio.sleep(5)
        await stream.send([b"3"])
        await asyncio.sleep(5)
        assert (inbox.got, other.got) == ([b"1"], [b"aside"])
        machines.wire.join(["a"], ["b"])
        await stream.send([b"4"])
        await asyncio.sleep(10)
        assert b"".join(inbox.got) == b"1234"

    Machines().run(scenario)


def test_who_connects_through_a_partition_waits_until_it_ends() -> None:
    async def scenario(machines: Machines) -> None:
        machines.start("a", Inbox().main)
        await asyncio.sleep(0.1)
        machines.wire.part(["a"], ["b"])
        connecting = asyncio.ensure_future(connect(machines, "b", "a"))
        await asyncio.sleep(20)
        assert not connecting.done()
        machines.wire.join(["a"], ["b"])
        await connecting

    Machines().run(scenario)


def test_a_path_that_is_blocked_one_way_carries_bytes_the_other_way_until_the_window_is_full() -> (
    None
):
    async def scenario(machines: Machines) -> None:
        inbox = Inbox()
        machines.start("a", inbox.main)
        await asyncio.sleep(0.1)
        stream = await connect(machines, "b", "a")
        await asyncio.sleep(0.1)
        machines.wire.block(["a"], ["b"])
        await stream.send([b"heard"])
        await inbox.streams[0].send([b"unheard"])
        answer = asyncio.ensure_future(receive(stream, 7))
        await asyncio.sleep(10)
        assert inbox.got == [b"heard"]
        assert not answer.done()
        sending = asyncio.ensure_future(stream.send([bytes(2 * WINDOW_BYTES)]))
        await asyncio.sleep(10)
        assert sum(map(len, inbox.got)) == WINDOW_BYTES  # all that a sender without acks may send
        machines.wire.unblock(["a"], ["b"])
        assert await answer == b"unheard"
        await sending

    Machines().run(scenario)


@pytest.mark.parametrize("blocked", [("a", "b"), ("b", "a")])
def test_no_connection_is_made_while_either_direction_is_blocked(blocked: tuple[str, str]) -> None:
    async def scenario(machines: Machines) -> None:
        machines.start("a", Inbox().main)
        await asyncio.sleep(0.1)
        machines.wire.block([blocked[0]], [blocked[1]])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await connect(machines, "b", "a")

    Machines().run(scenario)


def test_a_kill_behind_a_partition_is_known_once_bytes_get_through() -> None:
    async def scenario(machines: Machines) -> None:
        process = machines.start("a", Inbox().main)
        await asyncio.sleep(0.1)
        stream = await connect(machines, "b", "a")
        machines.wire.part(["a"], ["b"])
        process.crash(Crash.KILL)
        waiting = asyncio.ensure_future(receive(stream, 1))
        await asyncio.sleep(10)
        machines.wire.join(["a"], ["b"])
        await asyncio.sleep(10)
        assert not waiting.done()  # a reset is not sent again
        await stream.send([b"?"])
        with pytest.raises(NetworkError, match="reset"):
            await waiting

    Machines().run(scenario)


def test_a_slow_path_is_slow_one_way() -> None:
    async def scenario(machines: Machines) -> None:
        inbox = Inbox()
        machines.start("a", inbox.main)
        await asyncio.sleep(0.1)
        machines.wire.path("b", "a").bytes_per_second = 100
        stream = await connect(machines, "b", "a")
        await stream.send([bytes(100)])
        await stream.send([bytes(100)])
        await asyncio.sleep(1.5)
        assert sum(map(len, inbox.got)) == 100
        await inbox.streams[0].send([bytes(500)])
        async with asyncio.timeout(0.1):
            await receive(stream, 500)
        await asyncio.sleep(1)
        assert sum(map(len, inbox.got)) == 200

    Machines().run(scenario)


def test_a_paused_machine_takes_connections_and_bytes_and_answers_when_it_goes_on() -> None:
    async def scenario(machines: Machines) -> None:
        async def main(world: World) -> None:
            async def echo(stream: Stream) -> None:
                while data := await _some(stream):
                    await stream.send([data])

            async with listening(world, echo):
                await for_ever(world)

        machines.start("a", main)
        await asyncio.sleep(0.1)
        machines.host("a").pause()
        stream = await connect(machines, "b", "a")
        sending = asyncio.ensure_future(stream.send([bytes(WINDOW_BYTES + 1)]))
        await asyncio.sleep(60)
        assert not sending.done()  # its buffers are full
        machines.host("a").resume()
        await receive(stream, WINDOW_BYTES + 1)
        await sending

    Machines().run(scenario)


def test_a_paused_process_that_is_killed_runs_no_further() -> None:
    async def scenario(machines: Machines) -> None:
        lives: list[str] = []

        async def main(world: World) -> None:
            lives.append("begins")
            try:
                await asyncio.sleep(1)
                lives.append("goes on")
                await for_ever(world)
            except asyncio.CancelledError:
                with pytest.raises(ProcessKilled):
                    world.disk.make_directory("/tidied-up")
                raise

        process = machines.start("a", main)
        await asyncio.sleep(0.5)
        machines.host("a").pause()
        await asyncio.sleep(2)
        process.keep_down()
        process.crash(Crash.KILL)
        await asyncio.sleep(2)
        process.let_start()
        await asyncio.sleep(0.5)
        assert lives == ["begins", "begins"]
        assert not machines.host("a").is_paused

    Machines().run(scenario)
