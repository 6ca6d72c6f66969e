"""The two processes of the demo that are killed on the way: a node, and a Spark driver.

Each is a child, started as anybody would start it. A killed one is started again on what it left
behind: the node on its directory and port, the driver on its folder of checkpoints.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from penstock.model.error import PenstockError

PENSTOCK = (sys.executable, "-m", "penstock.cli.main")
READY = "penstock ready: "
STOP_SECONDS_MAX = 30


class DemoFailed(PenstockError):
    """A process did not start, or what came out is not what went in."""


class DemoNode:
    """Prepared transactions have no time-out on it (two-phase commit)."""

    def __init__(self, data: Path, *, settings: dict[str, str] | None = None) -> None:
        self.bootstrap = "127.0.0.1:0"  # from the first start on: where it is
        self._data = data
        self._log = data.with_name("node.log")
        self._settings = settings or {}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        assert self._process is None
        command = [*PENSTOCK, "serve", "--data", str(self._data), "--listen", self.bootstrap]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        with self._log.open("ab") as log:
            # A group of its own: Ctrl-C is for the demo, which then stops it.
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            self.kill()
            raise DemoFailed(f"the node did not start: {last_line(self._log)}")
        self.bootstrap = line.removeprefix(READY).strip()

    def kill(self) -> None:
        """The end that asks nobody."""
        self._end(signal.SIGKILL)

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
