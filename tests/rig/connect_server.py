"""A server of Spark Connect as a process, at a free port of this machine."""

import re
import subprocess
import time
from pathlib import Path

from rig.small_spark import SMALL_SPARK
from rig.spark_cluster import SPARK_HOME
from rig.spark_program import spark_environment

START_SECONDS_MAX = 240.0
STOP_SECONDS_MAX = 60.0
STARTED = re.compile(r"Spark Connect server started at: (127\.0\.0\.1:\d+)")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    **SMALL_SPARK,
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.log.level": "INFO",  # which it tells its port at
}


class ConnectServer:
    def __init__(self, *, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "connect.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.remote = ""

    def start(self) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--class", SERVER]
        for name, value in SETTINGS.items():
            command += ["--conf", f"{name}={value}"]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**spark_environment(), "SPARK_HOME": str(SPARK_HOME)},
            )
        self.remote = f"sc://{self._told_address()}"

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _told_address(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            text = self._log.read_text("utf-8", "replace")
            if found := STARTED.search(text):
                return found[1]
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.stop()
                raise RuntimeError(f"Spark Connect did not start: {text[-2000:]}")
            time.sleep(0.1)
