"""`penstock serve` as a process: started, killed, stopped, started again on its data."""

import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

from rig.broker import NO_RETENTION_ROUND
from rig.held_port import HeldPort

READY = "penstock ready: "
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 120


class ServedNode:
    """One node, at the same port in each start."""

    def __init__(self, *, data: Path, settings: dict[str, str] | None = None) -> None:
        self.data = data
        self._port = HeldPort()
        self.bootstrap = self._port.address
        self.log = data.with_name(data.name + ".log")
        self._settings = {**NO_RETENTION_ROUND, **(settings or {})}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        assert self._process is None
        command = [str(Path(sys.executable).with_name("penstock")), "serve"]
        command += ["--data", str(self.data)]
        if "listeners" not in self._settings:
            command += ["--listen", self.bootstrap]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.bootstrap = self._ready_address()

    def _ready_address(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            said = ""
            while selector.select(max(0.0, deadline - time.monotonic())):
                # Not by readline: what it has read beyond a line no selector knows of.
                data = os.read(self._process.stdout.fileno(), 65536)
                if not data:
                    break
                said += data.decode("utf-8", "replace")
                for line in said.splitlines(keepends=True):
                    if line.startswith(READY) and line.endswith("\n"):
                        return line.removeprefix(READY).strip()
        self.kill()
        raise RuntimeError(f"the node did not start: {self.logged()[-4000:]}")

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def logged(self) -> str:
        """What all starts so far wrote to standard error."""
        return self.log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """The end that asks nobody."""
        self._end(signal.SIGKILL)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """A clean stop; returns the exit status."""
        return self._end(how)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None and process.stdout is not None
        process.send_signal(how)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()
