"""Several nodes as children of one process: each is a cluster of its own here."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from penstock.cli.node_processes import READY, NodeCommand, NodeProcesses, ending
from rig.clients.confluent import QUIET

WAIT_SECONDS = 120


def node(number: int, data: Path, *options: str) -> NodeCommand:
    serve = (sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(data))
    listen = ("--listen", "127.0.0.1:0", "--set", f"node.id={number}")
    return NodeCommand(
        name=f"node-{number}",
        arguments=(*serve, *listen, *options),
        start_again=f"penstock serve --config {data}/node-{number}/server.properties",
    )


class Lines:
    """What was written, and a wait for a line."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._more = asyncio.Event()

    def __call__(self, line: str) -> None:
        self.seen.append(line)
        self._more.set()

    async def until(self, found: Callable[[str], bool]) -> str:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                for line in self.seen:
                    if found(line):
                        return line
                self._more.clear()
                await self._more.wait()


def watched(
    commands: list[NodeCommand],
    scenario: Callable[[NodeProcesses, Lines, Lines], Awaitable[None]],
) -> tuple[int, list[str], list[str]]:
    """Runs nodes with a scenario beside them: the status, and the lines of both outputs."""

    async def run() -> tuple[int, list[str], list[str]]:
        told, logged = Lines(), Lines()
        nodes = NodeProcesses(commands, say=told, log=logged)
        async with asyncio.timeout(2 * WAIT_SECONDS), asyncio.TaskGroup() as group:
            ended = group.create_task(nodes.run())
            await scenario(nodes, told, logged)
            status = await ended
        return status, told.seen, logged.seen

    return asyncio.run(run())


def test_nodes_start_serve_and_stop_together(tmp_path: Path) -> None:
    clusters: list[int] = []

    async def scenario(_: NodeProcesses, told: Lines, __: Lines) -> None:
        ready = await told.until(lambda line: line.startswith(READY))
        addresses = ready.removeprefix(READY).split(",")
        for address in addresses:
            admin = AdminClient({"bootstrap.servers": address, "log_level": QUIET})
            metadata = await asyncio.to_thread(admin.list_topics, timeout=WAIT_SECONDS)
            clusters.extend(metadata.brokers)
        os.kill(os.getpid(), signal.SIGTERM)

    commands = [node(number, tmp_path) for number in (1, 2)]
    status, told, logged = watched(commands, scenario)
    assert status == 0
    assert clusters == [1, 2]
    assert len(told) == 1
    for number in (1, 2):
        mine = [line for line in logged if line.startswith(f"node-{number} time=")]
        assert f"node stopped node_id={number}" in mine[-1]
    assert all(line.startswith(("node-1 ", "node-2 ")) for line in logged)


def test_lines_of_json_stay_json_and_name_their_node(tmp_path: Path) -> None:
    async def scenario(nodes: NodeProcesses, told: Lines, _: Lines) -> None:
        await told.until(lambda line: line.startswith(READY))
        nodes.stop()

    commands = [node(number, tmp_path, "--log-format", "json") for number in (1, 2)]
    status, _, logged = watched(commands, scenario)
    assert status == 0
    lines = [json.loads(line) for line in logged if READY not in line]
    for number in (1, 2):
        mine = [line["event"] for line in lines if line["node"] == number]
        assert mine[0] == "node.starting"
        assert mine[-1] == "node.stopped"
        assert {"node.ready", "node.stopping", "quorum.role_changed"} <= set(mine)


def test_a_node_that_is_killed_is_told_with_how_to_start_it_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    async def scenario(nodes: NodeProcesses, told: Lines, logged: Lines) -> None:
        await told.until(lambda line: line.startswith(READY))
        os.kill(int((tmp_path / "node-2" / "node.pid").read_text()), signal.SIGKILL)
        await logged.until(lambda line: "was killed by SIGKILL" in line)
        assert (tmp_path / "node-1" / "node.pid").exists()
        nodes.stop()

    status, _, logged = watched([node(number, tmp_path) for number in (1, 2)], scenario)
    assert status == 1
    (line,) = [line for line in logged if "was killed" in line]
    again = f"penstock serve --config {tmp_path}/node-2/server.properties"
    assert line == f"node-2 was killed by SIGKILL; start it again: {again}"
    assert any("node stopped node_id=1" in line for line in logged)


def test_a_node_that_cannot_start_says_why_and_is_told(tmp_path: Path) -> None:
    async def scenario(nodes: NodeProcesses, _: Lines, logged: Lines) -> None:
        await logged.until(lambda line: line.startswith("node-2 ended with status 1"))
        await logged.until(lambda line: line.startswith(f"node-1 {READY}"))
        nodes.stop()

    commands = [node(1, tmp_path), node(2, tmp_path, "--set", "num.partitions=many")]
    status, told, logged = watched(commands, scenario)
    assert status == 1
    assert told == []
    assert any(line.startswith("node-2 penstock: Invalid value many") for line in logged)


def test_a_second_signal_kills_nodes_that_do_not_stop() -> None:
    deaf = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('deaf', flush=True); signal.pause()"
    )
    command = NodeCommand(name="node-1", arguments=(sys.executable, "-c", deaf), start_again="x")

    async def scenario(nodes: NodeProcesses, _: Lines, logged: Lines) -> None:
        await logged.until(lambda line: line == "node-1 deaf")
        nodes.stop()
        nodes.stop()

    status, _, logged = watched([command], scenario)
    assert status == 1
    assert logged[-1] == "node-1 was killed by SIGKILL; start it again: x"


def test_lines_of_a_node_are_escaped_and_bounded() -> None:
    noisy = "import sys; print('\\x1b[2J'); print('x' * 3_000_000, file=sys.stderr)"
    command = NodeCommand(name="node-1", arguments=(sys.executable, "-c", noisy), start_again="x")

    async def scenario(*_: object) -> None:
        pass

    status, _, logged = watched([command], scenario)
    assert status == 1, "it ended although nobody had asked"
    assert "node-1 \\x1b[2J" in logged
    assert any("(a line of more than" in line for line in logged)
    assert max(map(len, logged)) <= 1024 * 1024 + 100


def test_endings_have_names() -> None:
    assert ending(0) == "ended with status 0"
    assert ending(-9) == "was killed by SIGKILL"
    assert ending(-64) == "was killed by SIGRTMAX"
    assert ending(-99) == "was killed by signal 99"
