"""The two brokers under measurement, each a process of its own with fresh data.

Both get the same settings where the bench needs any; else each runs with its own defaults, which
for Apache Kafka are those of its distribution (server.properties and the options of its start
script, with a heap of 1 GiB).
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from asking import Asking, Refused, await_true, first_asking

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rig.held_port import HeldPort

TESTS = Path(__file__).resolve().parents[1] / "tests"
MIB = 1024 * 1024
HOST = "127.0.0.1"
STOP_SECONDS_MAX = 60
CLUSTER_ID = "UGVuc3RvY2tCZW5jaEtmaw"

# Deleted topics must not linger: their dirty pages would be written back under the next case.
SHARED_SETTINGS = {"log.segment.delete.delay.ms": "500"}
DELETE_SECONDS_MAX = 15

KAFKA_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
KAFKA_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
FETCH_JARS = """
from rig.apache_kafka.jars import PeerMissing, fetched_jars
try:
    print(fetched_jars())
except PeerMissing as missing:
    raise SystemExit(str(missing))
"""
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = OUT
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """The listeners of a broker, named after their protocols; one of them is in plain text."""

    settings: Mapping[str, str]
    load_options: Mapping[str, Mapping[str, object]]  # by listener: how the load connects there


PLAINTEXT = "PLAINTEXT"
NOT_PROTECTED = Protection(settings={}, load_options={PLAINTEXT: {}})


class Broker(Protocol):
    """One broker, or a cluster of them that is asked through one."""

    name: str
    address: tuple[str, int]

    @property
    def pids(self) -> list[int]:
        """Its processes: one for each node."""

    @property
    def folders(self) -> list[Path]:
        """Those with its partitions: one for each node."""

    @property
    def replicas(self) -> int:
        """Of each partition."""

    def options_at(self, listener: str) -> dict[str, object]:
        """What the load program is told in order to connect there."""

    def start(self) -> float:
        """Starts it; seconds from the start of the process to the first acked record."""

    def stop(self) -> None: ...


class LoneBroker(Broker, Protocol):
    @property
    def pid(self) -> int: ...

    @property
    def data(self) -> Path: ...

    def kill_and_start(self) -> None: ...


class Served:
    """A process that serves on `address`, and how long it took to serve."""

    replicas = 1

    def __init__(self, name: str, folder: Path, *, protection: Protection = NOT_PROTECTED) -> None:
        self.name = name
        self._ports = [HeldPort() for _ in protection.load_options]
        numbers = (port.number for port in self._ports)
        self.addresses = {one: (HOST, next(numbers)) for one in protection.load_options}
        self.address = self.addresses[PLAINTEXT]
        self._protection = protection
        self._folder = folder
        self._command: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    @property
    def folders(self) -> list[Path]:
        return [self.data]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        return self._folder / "server.log"

    @property
    def data(self) -> Path:
        return self._folder / "data"

    @property
    def listeners(self) -> str:
        return ",".join(f"{name}://{host}:{port}" for name, (host, port) in self.addresses.items())

    def options_at(self, listener: str) -> dict[str, object]:
        host, port = self.addresses[listener]
        return {"address": f"{host}:{port}", **self._protection.load_options[listener]}

    def kill_and_start(self) -> None:
        """Starts it again on what a kill has left; it may take a while to serve."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._launch()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self) -> None:
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _serve(self, command: list[str]) -> float:
        started = time.perf_counter()
        self._command = command
        self._launch()
        try:
            with first_asking(self.address, lambda: self.is_running) as asking:
                topic_id = asking.create_topic("first", 1)
                asking.produce_one(topic_id)
                taken = time.perf_counter() - started
                asking.delete_topic("first")
        except OSError as error:
            tail = self.log.read_text("utf-8", "replace")[-2000:]
            raise SystemExit(f"{self.name} does not serve: {error}\n{tail}") from error
        return taken


class Penstock(Served):
    def __init__(
        self,
        folder: Path,
        *,
        settings: dict[str, str],
        protection: Protection = NOT_PROTECTED,
        name: str = "penstock",
    ) -> None:
        super().__init__(name, folder, protection=protection)
        self._settings = {**SHARED_SETTINGS, **protection.settings, **settings}

    def start(self) -> float:
        self._folder.mkdir(parents=True)
        command = [*self._program(), "serve", "--data", str(self.data)]
        command += ["--set", f"listeners={self.listeners}"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        return self._serve(command)

    def _program(self) -> list[str]:
        return [str(Path(sys.executable).with_name("penstock"))]


class Switched(Penstock):
    """A node of ours in which one part can be switched off and on; see `switched_node.py`."""

    def __init__(
        self,
        folder: Path,
        *,
        part: str,
        settings: dict[str, str],
        protection: Protection = NOT_PROTECTED,
    ) -> None:
        super().__init__(folder, settings=settings, protection=protection)
        self._part = part

    def switch(self, *, on: bool) -> None:
        os.kill(self.pid, signal.SIGUSR1 if on else signal.SIGUSR2)

    def _program(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("switched_node.py")), self._part]


class ApacheKafka(Served):
    def __init__(
        self,
        folder: Path,
        *,
        jars: Path,
        settings: dict[str, str] | None = None,
        protection: Protection = NOT_PROTECTED,
    ) -> None:
        super().__init__("kafka", folder, protection=protection)
        self._jars = jars
        self._controller = HeldPort()
        self._settings = {**protection.settings, **(settings or {})}

    def start(self) -> float:
        self._folder.mkdir(parents=True)
        properties = self._folder / "server.properties"
        properties.write_text(self._properties(), encoding="utf-8")
        logging = self._folder / "log4j2.properties"
        logging.write_text(LOGGING, encoding="utf-8")
        java = ["java", f"-Dlog4j2.configurationFile={logging}", "-cp", f"{self._jars}/*"]
        storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        subprocess.run([*java, *storage], check=True, capture_output=True, timeout=60)
        return self._serve([*java[:1], *KAFKA_JVM, *java[1:], "kafka.Kafka", str(properties)])

    def _properties(self) -> str:
        controller = self._controller.address
        settings = {
            **KAFKA_SETTINGS,
            **SHARED_SETTINGS,
            **self._settings,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"{self.listeners},CONTROLLER://{controller}",
            "advertised.listeners": self.listeners,
            "log.dirs": str(self.data),
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


def kafka_jars() -> Path | str:
    """The jars that the tests use as well, or the reason why there are none."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    found = subprocess.run(
        [sys.executable, "-c", FETCH_JARS], capture_output=True, text=True, env=environment
    )
    if found.returncode:
        return found.stderr.strip().splitlines()[-1]
    return Path(found.stdout.strip())


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def topic_on(broker: Broker, name: str, partitions: int) -> bytes:
    """The id of a new topic that can be written; where it is replicated, all are in sync."""
    with Asking(broker.address) as asking:
        topic_id = asking.create_topic(name, partitions, replicas=broker.replicas)
        if broker.replicas == 1:
            asking.await_served(topic_id, range(partitions))
            return topic_id
        await_true("replicas in sync", lambda: asking.leaders(name) is not None)
    # A node may show itself as leader a moment before it is one.
    leaders = leaders_on(broker, name)
    for leader in set(leaders):
        host, port = leader.rsplit(":", 1)
        with Asking((host, int(port))) as asking:
            led = [index for index, one in enumerate(leaders) if one == leader]
            asking.await_served(topic_id, led)
    return topic_id


def leaders_on(broker: Broker, name: str) -> list[str]:
    """Where each partition of a topic is led; nothing if there is one node alone."""
    if broker.replicas == 1:
        return []
    with Asking(broker.address) as asking:
        leaders = asking.leaders(name)
    if leaders is None:
        raise Refused(f"{name}: not all replicas are in sync")
    return leaders


def forget_topic(broker: Broker, name: str) -> None:
    """Deletes a topic, and waits until its files are gone, and their dirty pages with them."""
    with Asking(broker.address) as asking:
        asking.delete_topic(name)
    deadline = time.monotonic() + DELETE_SECONDS_MAX
    while any(one for folder in broker.folders for one in folder.glob(f"{name}-*")):
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)
