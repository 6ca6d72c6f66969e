"""One worker of the pipeline in a process of its own, as the test sees it: life after life."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from rig.pipeline.stream import Attempt

TESTS = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120.0


class Worker:
    """A place in the group and a transactional id, that one process after another takes.

    `commits` has when each attempt began to be committed, by the machine's monotonic clock: the
    process tells it before it asks for the commit, so that it is known whatever becomes of it.
    """

    def __init__(
        self, command: list[str], settings: Mapping[str, str], *, name: str, log: Path
    ) -> None:
        self.commits: dict[Attempt, int] = {}
        self.aborts = 0
        self.lives = 0
        self.errors: list[str] = []
        self._command = command
        self._settings = {
            **settings,
            "group.instance.id": name,
            "transactional.id": name,
        }
        self._name = name
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ends(self) -> str:
        """What it said last of its troubles."""
        return f"{self.errors[-3:]} {self._log.read_text('utf-8', 'replace')[-6000:]}"

    def start(self) -> None:
        assert not self.runs
        self._end()
        self.lives += 1
        settings = {**self._settings, "life": f"{self._name}.{self.lives}"}
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*self._command, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            )
        self._listener = threading.Thread(target=self._listen, args=(self._process,))
        self._listener.start()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._end()

    def stall(self) -> None:
        """It does nothing at all until `resume`, as a process does that the machine forgot."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """It ends what it does; returns when the process has gone."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self.kill()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert self._listener is not None
            assert process.stdin is not None and process.stdout is not None
            self._listener.join(PATIENCE_SECONDS)
            process.stdin.close()
            process.stdout.close()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        life = f"{self._name}.{self.lives}"
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # it was killed over this line
            told = json.loads(line)
            if "commits" in told:
                self.commits[Attempt(life, told["commits"])] = told["at_ns"]
            if "aborts" in told:
                self.aborts += 1
            if "error" in told:
                self.errors.append(f"{life}: {told['error']}")
