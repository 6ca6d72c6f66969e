"""One Apache Kafka node, broker and controller, on free ports of the loopback with fresh data."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rig.apache_kafka.java import java_command
from rig.broker import NO_RETENTION_ROUND
from rig.held_port import HeldPort

START_SECONDS_MAX = 240
STOP_SECONDS_MAX = 120
CLUSTER_ID = "UGVuc3RvY2tUZXN0UGVlcg"


class ApacheKafka:
    """One peer, formatted and not yet started. `data` is in the layout that Penstock shares.
    `listener` is another one for clients: what it speaks, and its address.
    """

    def __init__(
        self,
        *,
        jars: Path,
        folder: Path,
        settings: dict[str, str],
        listener: tuple[str, str] | None = None,
        java_properties: Mapping[str, str] | None = None,
    ) -> None:
        protocol, address = ("", "") if listener is None else listener
        more = "" if listener is None else f",{protocol}://{address}"
        self.data = folder / "data"
        self._port, self._controller_port = HeldPort(), HeldPort()
        self.bootstrap = self._port.address
        self.controller = self._controller_port.address
        self._log = folder / "server.log"
        self._serve = java_command(
            jars, heap_mib=512, folder=folder, log_level="INFO", properties=java_properties
        )
        self._process: subprocess.Popen[bytes] | None = None
        properties = folder / "server.properties"
        self._serve += ["kafka.Kafka", str(properties)]
        properties.write_text(
            "".join(
                f"{name}={value}\n"
                for name, value in {
                    "process.roles": "broker,controller",
                    "node.id": "1",
                    "controller.quorum.voters": f"1@{self.controller}",
                    "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.controller}{more}",
                    "advertised.listeners": f"PLAINTEXT://{self.bootstrap}{more}",
                    "controller.listener.names": "CONTROLLER",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
                    + ("" if listener is None else f",{protocol}:{protocol}"),
                    "log.dirs": str(self.data),
                    "offsets.topic.replication.factor": "1",
                    "offsets.topic.num.partitions": "1",
                    "transaction.state.log.replication.factor": "1",
                    "transaction.state.log.min.isr": "1",
                    **NO_RETENTION_ROUND,
                    **settings,
                }.items()
            ),
            encoding="utf-8",
        )
        self.data.mkdir()
        for name, content in formatted(jars, properties=properties).items():
            (self.data / name).write_bytes(content)

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        assert self._process is None
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._serve, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._await_start()

    def _await_start(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while "Kafka Server started" not in self._log.read_text("utf-8", "replace"):
            running = self._process is not None and self._process.poll() is None
            if not running or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(self._log.read_text("utf-8", "replace")[-4000:])
            time.sleep(0.1)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Its files stand still, as those of one that was killed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it as it stands, in the middle of whatever it does."""
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        process.wait()

    def stop(self) -> None:
        """A clean stop, so that the data can be read by others."""
        process, self._process = self._process, None
        assert process is not None
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# A JVM is started for it, so it is done once: what it writes has nothing of ports or settings.
FORMATTED: dict[Path, dict[str, bytes]] = {}


def formatted(jars: Path, *, properties: Path) -> dict[str, bytes]:
    """The files of a data directory without topics."""
    if jars not in FORMATTED:
        with tempfile.TemporaryDirectory() as folder:
            sample = Path(folder) / "server.properties"
            told = properties.read_text("utf-8")
            sample.write_text(f"{told}log.dirs={folder}/data\n", encoding="utf-8")
            command = java_command(jars, heap_mib=128, folder=Path(folder))
            command += ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(sample)]
            subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS_MAX)
            written = (Path(folder) / "data").iterdir()
            FORMATTED[jars] = {file.name: file.read_bytes() for file in written}
    return FORMATTED[jars]
