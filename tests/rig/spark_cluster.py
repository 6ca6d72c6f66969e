"""A real standalone cluster of Spark on this machine: a master and its workers, all processes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyspark

from penstock.spark.java import java_home
from rig.spark_path import python_path

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS_MAX = 240.0
STOP_SECONDS_MAX = 60.0
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"
MASTER_HOST = "127.0.0.1"
ANY_PORTS = ("--port", "0", "--webui-port", "0")
PROGRAMS = 2
EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """A program gets one small executor on each worker. There is room for a second program: one
    that sleeps keeps what it has. All of it is gone after `stop`. `path` is where the Python of
    executors finds packages, beside its own.
    """

    def __init__(
        self,
        *,
        folder: Path,
        workers: int = 2,
        executor_memory_mib: int = 512,
        path: str | None = None,
    ) -> None:
        self._folder = folder
        self._path = python_path() if path is None else path
        self._workers_wanted = workers
        self._executor_memory_mib = executor_memory_mib
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    @property
    def settings(self) -> dict[str, str]:
        """What a driver has to be told, so that it runs here and fits."""
        return {
            "spark.master": self.master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": f"{self._executor_memory_mib}m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(self._workers_wanted),
            # Else 200, which is much for two cores.
            "spark.sql.shuffle.partitions": str(2 * self._workers_wanted),
        }

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        master_log = self._daemon("master", "org.apache.spark.deploy.master.Master", MASTER_HOST)
        self.master = self._told(master_log, MASTER_URL)
        for index in range(self._workers_wanted):
            name = f"worker{index}"
            log = self._daemon(
                name,
                "org.apache.spark.deploy.worker.Worker",
                # Of its own: a second attempt of a task is never made on the host of the first.
                f"127.0.0.{index + 2}",
                *["--cores", str(PROGRAMS)],
                *["--memory", f"{PROGRAMS * self._executor_memory_mib}m"],
                *["--work-dir", str(self._folder / name), self.master],
            )
            self._told(log, re.compile(f"({REGISTERED})"))

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks now, in the order of their workers."""
        return [
            child
            for daemon in self._processes[1:]
            for child in psutil.Process(daemon.pid).children()
            if is_executor(child)
        ]

    def stop(self) -> None:
        ending = []
        for daemon in reversed(self._processes):
            try:
                ending += psutil.Process(daemon.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                continue
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._processes:
            try:
                daemon.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for process in ending:
            if process.is_running():
                process.kill()
        self._processes.clear()

    def _daemon(self, name: str, program: str, host: str, *arguments: str) -> Path:
        """Starts one that takes any free port; where its log is."""
        log = self._folder / f"{name}.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": self._path,
        }
        home = java_home(environment)
        if home is not None:
            environment["JAVA_HOME"] = str(home)
        command = [str(SPARK_HOME / "bin" / "spark-class"), program, "--host", host]
        with open(log, "ab") as output:
            self._processes.append(
                subprocess.Popen(
                    [*command, *ANY_PORTS, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._folder,
                    env=environment,
                )
            )
        return log

    def _told(self, log: Path, wanted: re.Pattern[str]) -> str:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            text = log.read_text("utf-8", "replace")
            if found := wanted.search(text):
                return found[1]
            if time.monotonic() > deadline or self._processes[-1].poll() is not None:
                self.stop()
                raise RuntimeError(f"{log.name}: {text[-2000:]}")
            time.sleep(0.1)


def is_executor(process: psutil.Process) -> bool:
    try:
        return EXECUTOR in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
