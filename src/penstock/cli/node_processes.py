"""Several nodes as child processes of one command: started, watched, and stopped together.

    standard output   `penstock metrics: URL,URL,...` if they tell metrics, and then
                      `penstock ready: ADDRESS,ADDRESS,...` once all are ready: the first listener
                      of each
    standard error    the log of each node, every line with the node's name before it

A signal to stop stops all nodes; a second one kills them. A node that ends by itself is reported,
with the command that starts it again, and the others go on.
"""

import asyncio
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.cli.escape import escaped

READY = "penstock ready: "
METRICS = "penstock metrics: "  # comes before the former
LINE_BYTES_MAX = 1024 * 1024
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand:
    """How one node is started, by this process and by a person."""

    name: str
    arguments: tuple[str, ...]
    start_again: str


class NodeProcesses:
    """See the module. `say` gets lines for standard output, `log` those for standard error."""

    def __init__(self, commands: Sequence[NodeCommand], *, say: Say, log: Say) -> None:
        self._commands = commands
        self._say = say
        self._log = log
        self._running: dict[str, Process] = {}
        self._ready: dict[str, str] = {}  # addresses, by the name of the node
        self._metrics: dict[str, str] = {}  # where they are told, likewise
        self._stops_asked = 0

    async def run(self) -> int:
        """Until all nodes have ended. The status is 0 if they ended cleanly, because they were
        asked to.
        """
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            async with asyncio.TaskGroup() as group:
                watches = [group.create_task(self._live(one)) for one in self._commands]
        except BaseException:
            self._send(signal.SIGKILL)
            raise
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
        return max((watch.result() for watch in watches), default=0)

    def stop(self) -> None:
        """Asks all nodes to stop; kills them when it is called again."""
        self._stops_asked += 1
        self._send(signal.SIGTERM if self._stops_asked == 1 else signal.SIGKILL)

    def _send(self, how: signal.Signals) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(how)

    async def _live(self, command: NodeCommand) -> int:
        """One node from its start to its end; 0 if it ended cleanly after it was asked to."""
        if self._stops_asked:
            return 0
        # A group of its own: Ctrl-C is for this process, which then stops the nodes in order.
        process = await asyncio.create_subprocess_exec(
            *command.arguments,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )
        self._running[command.name] = process
        if self._stops_asked:
            process.send_signal(signal.SIGTERM)
        assert process.stdout is not None and process.stderr is not None
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass_on(process.stdout, command, self._told))
            group.create_task(self._pass_on(process.stderr, command, self._logged))
        status = await process.wait()
        del self._running[command.name]
        if self._stops_asked and status == 0:
            return 0
        self._log(f"{command.name} {ending(status)}; start it again: {command.start_again}")
        return 1

    async def _pass_on(
        self,
        stream: asyncio.StreamReader,
        command: NodeCommand,
        handle: Callable[[NodeCommand, str], None],
    ) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit, and dropped
                handle(command, f"(a line of more than {LINE_BYTES_MAX} bytes)")
                continue
            if not line:
                return
            handle(command, escaped(line.decode("utf-8", "replace").rstrip("\r\n")))

    def _told(self, command: NodeCommand, line: str) -> None:
        if line.startswith(METRICS):
            self._metrics[command.name] = line.removeprefix(METRICS)
        if not line.startswith(READY):
            self._logged(command, line)
            return
        self._ready[command.name] = line.removeprefix(READY)
        self._logged(command, line)
        if len(self._ready) == len(self._commands):
            urls = [self._metrics[one.name] for one in self._commands if one.name in self._metrics]
            if urls:
                self._say(METRICS + ",".join(urls))
            # Of several listeners the first is for clients; those after it may be for nodes alone.
            first = [self._ready[one.name].partition(",")[0] for one in self._commands]
            self._say(READY + ",".join(first))

    def _logged(self, command: NodeCommand, line: str) -> None:
        """A line of JSON names its node, and stays JSON."""
        self._log(line if line.startswith("{") else f"{command.name} {line}")


def ending(status: int) -> str:
    """How a process ended, by the status that asyncio gives."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
