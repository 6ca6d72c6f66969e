"""A driver program as a process with all that Spark starts for it: asked, killed, stopped."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from rig.small_spark import SMALL_SPARK
from rig.spark_path import python_path
from rig.spark_query import Carrying
from rig.spark_strikes import Strike

SMALL = {
    **SMALL_SPARK,
    # A task that failed is tried twice more.
    "spark.master": "local[2,3]",
    "spark.driver.memory": "768m",
    "spark.log.level": "WARN",
}
ANSWER_SECONDS_MAX = 300
END_SECONDS_MAX = 120
LOOK_SECONDS = 0.1


class DriverError(Exception):
    """What a driver program says of a question that it could not answer."""


class SparkDriver:
    """One life of a driver program. Its log tells what Spark had to say."""

    def __init__(
        self,
        *,
        log: Path,
        settings: Mapping[str, str] | None = None,
        program: str = "rig.spark_driver",
    ) -> None:
        self.log = log
        told = {**SMALL, "spark.local.dir": str(log.parent / "spark"), **(settings or {})}
        with open(log, "ab") as standard_error:
            self._process = subprocess.Popen(
                [sys.executable, "-m", program, json.dumps(told)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=standard_error,
                text=True,
                cwd=log.parent,
                env={**os.environ, "PYTHONPATH": python_path(), "SPARK_LOCAL_IP": "127.0.0.1"},
                # What Spark forks leaves the process group, never the session.
                start_new_session=True,
            )
        self._hear()

    def carry(self, carrying: Carrying) -> list[int]:
        """Carries everything that is there; the batches that had rows."""
        return self.ended(self.start(carrying))

    def start(self, carrying: Carrying) -> str:
        return str(self.ask("start", carrying=asdict(carrying)))

    def ended(self, query: str) -> list[int]:
        told = self.ask("await", query=query)
        if told["error"] is not None:
            raise DriverError(told["error"])
        return list(told["batches"])

    def await_strike(self, query: str, strike: Strike) -> None:
        """Until the query has come to where it is struck; it must not have ended before."""
        while not strike.was_reached:
            if not self.ask("look", query=query):
                raise DriverError(f"{strike} was not reached, batches {self.ended(query)}")
            time.sleep(LOOK_SECONDS)

    def ask(self, operation: str, **arguments: object) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"operation": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def kill(self) -> None:
        """SIGKILL for the program, its JVM and its workers."""
        self._signal(signal.SIGKILL)
        self._process.wait(END_SECONDS_MAX)
        self._close()

    def stall(self) -> None:
        """None of its processes does anything until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS_MAX)
        finally:
            self.kill()

    def logged(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        watchdog = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            self.kill()
            raise DriverError(f"the driver ended: {self.logged()[-4000:]}")
        told = json.loads(line)
        if "trouble" in told:
            raise DriverError(told["trouble"])
        return told["answer"]

    def _signal(self, number: signal.Signals) -> None:
        for pid in session_pids(self._process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def _close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


def session_pids(leader: int) -> list[int]:
    """The processes of a session, its leader first."""
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == leader:
                found.append(pid)
        except ProcessLookupError:
            continue
    return sorted(found, key=lambda pid: pid != leader)


def decoded(value: Any) -> Any:
    """What came as JSON, with its bytes as bytes."""
    match value:
        case {"base64": text}:
            return base64.b64decode(text)
        case dict():
            return {name: decoded(one) for name, one in value.items()}
        case list():
            return [decoded(one) for one in value]
        case _:
            return value
