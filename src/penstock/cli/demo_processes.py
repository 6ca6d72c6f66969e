"""The processes of the demo that are killed on the way: the nodes of a cluster, and a Spark driver.

Each is a child, started as anybody would start it. A killed one is started again on what it left
behind: a node on its directory and port, the driver on its folder of checkpoints.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.cli.laid_out_nodes import laid_out_nodes
from penstock.model.error import PenstockError
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy

PENSTOCK = (sys.executable, "-m", "penstock.cli.main")
READY = "penstock ready: "
STOP_SECONDS_MAX = 30


class DemoFailed(PenstockError):
    """A process did not start, or what came out is not what went in."""


class DemoNode:
    """One node, by the arguments of `penstock`."""

    def __init__(self, arguments: Sequence[str], *, log: Path) -> None:
        self.address: str | None = None  # from the first start on
        self._arguments = arguments
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        """Starts it, without waiting until it is ready."""
        assert self._process is None
        with self._log.open("ab") as log:
            # A group of its own: Ctrl-C is for the demo, which then stops it.
            self._process = subprocess.Popen(
                [*PENSTOCK, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            self.kill()
            raise DemoFailed(f"the node did not start: {last_line(self._log)}")
        self.address = line.removeprefix(READY).strip()

    def start(self) -> None:
        self.begin()
        self.wait_until_ready()

    def kill(self) -> None:
        """The end that asks nobody."""
        self._end(signal.SIGKILL)

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        with process:
            process.send_signal(how)
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


class DemoCluster:
    """Nodes that are laid out as `penstock serve --nodes` does it, each with a log of its own."""

    def __init__(self, nodes: int, data: Path, *, settings: Mapping[str, str]) -> None:
        commands = laid_out_nodes(
            nodes,
            data_directory=str(data),
            port=0,
            settings=settings,
            log_level="info",
            disk=RealDisk(),
            entropy=RealEntropy(),
            clock=RealClock(),
        )
        self.nodes = {
            number: DemoNode(one.arguments[len(PENSTOCK) :], log=data / f"{one.name}.log")
            for number, one in enumerate(commands, start=1)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values() if node.address is not None)

    def start(self) -> None:
        """Returns when all are ready: none of them is before a majority runs."""
        for node in self.nodes.values():
            node.begin()
        for node in self.nodes.values():
            node.wait_until_ready()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.ask_to_stop()
        for node in self.nodes.values():
            node.stop()


class DemoDriver:
    """`penstock pipeline run`, with Java and all that it starts."""

    def __init__(self, arguments: list[str], *, log: Path) -> None:
        self.starts = 0
        self._arguments = arguments
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ended(self) -> bool:
        """By itself, which it should not."""
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int | None:
        """None while it is not running."""
        return None if self._process is None or self.ended else self._process.pid

    def start(self) -> None:
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*PENSTOCK, "pipeline", "run", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """The driver and its Java at once; workers end when they find these gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As Ctrl-C does."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS_MAX)
        self._end(signal.SIGKILL)

    def last_line(self) -> str:
        """The last line of its output."""
        return last_line(self._log)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        process.wait()


def last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
