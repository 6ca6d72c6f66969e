"""A cluster in plain text becomes a secured one by rolling restarts, while clients work.

The steps are those of docs/security.md, and the settings are read from there.
"""

import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from penstock.model.identity import id_text
from penstock.world.properties import parse_properties
from rig.broker import NO_RETENTION_ROUND
from rig.clients.confluent import QUIET
from rig.cluster_questions import until
from rig.command import Outcome, run_command
from rig.held_port import HeldPort
from rig.moving_clients import MovingReader, MovingWriter, Way, WaysIn, until_go_on
from rig.served_cluster import PENSTOCK, READY, NodeProcess
from rig.source_tree import ROOT
from rig.tls_files import TlsFiles

pytestmark = pytest.mark.slow

GUIDE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
MACHINES = {1: "alpha", 2: "beta", 3: "gamma"}
PORTS = ("9092", "9093", "9094", "9095", "9096")  # of each machine of the guide
PLAIN, CONTROLLER, CLIENTS = PORTS[:3]
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
INITIAL_CONTROLLERS = ",".join(
    f"{number}@{machine}:9093:{id_text(bytes([number]) * 16)}"
    for number, machine in MACHINES.items()
)
PARTITIONS = 6
WAIT_SECONDS = 60
TOPIC, GROUP = "orders", "shop"
Run = Callable[..., Outcome]


def steps() -> list[dict[str, str]]:
    """What changes in the file of alpha."""
    [section] = [one for one in GUIDE.split("\n## ") if one.startswith("Securing a cluster")]
    found = re.findall(r"^```properties\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [parse_properties(block) for block in found]


class MovedCluster:
    """Three nodes whose files are changed step by step. Their voters are fixed, by
    `controller.quorum.voters`, or in the metadata.
    """

    def __init__(self, folder: Path, *, fixed: bool) -> None:
        self._folder = folder
        self._fixed = fixed
        self.files = TlsFiles(folder / "certificates")
        self._held = {(node, port): HeldPort() for node in MACHINES for port in PORTS}
        self._settings: dict[int, dict[str, str]] = {number: {} for number in MACHINES}
        self.nodes = {number: self._process(number) for number in MACHINES}
        for number in MACHINES:
            self.files.node(f"node-{number}")
            self._begin(number)
            self._write(number)
            command = [PENSTOCK, "storage", "format", "--cluster-id", CLUSTER_ID]
            command += ["--config", str(self._file(number))]
            if not fixed:
                command += ["--initial-controllers", self._here(INITIAL_CONTROLLERS)]
            subprocess.run(command, check=True, capture_output=True, timeout=WAIT_SECONDS)

    def bootstrap(self, port: str) -> str:
        return ",".join(self._held[number, port].address for number in MACHINES)

    def plain(self) -> Way:
        return {"bootstrap.servers": self.bootstrap(PLAIN)}

    def secured(self, user: str, password: str) -> Way:
        return {
            "bootstrap.servers": self.bootstrap(CLIENTS),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.files.trusted),
        }

    def start(self, *numbers: int) -> None:
        before = {number: self.nodes[number].logged().count(READY) for number in numbers}
        for number in numbers:
            self.nodes[number].begin()
        for number in numbers:
            self.nodes[number].until_logged(READY, times=before[number] + 1)

    def change(self, number: int, step: Mapping[str, str]) -> None:
        """The file of a node, by what the guide shows for the first one."""
        for name, value in step.items():
            if name == "listeners":
                value = value.replace("alpha", MACHINES[number])
            value = value.replace("/etc/penstock", str(self.files.folder))
            value = value.replace("node-1.pem", f"node-{number}.pem")
            self._set(number, name, value)
        self._write(number)

    def is_open(self, port: str) -> bool:
        """Whether any node listens there."""
        for number in MACHINES:
            host, _, held = self._held[number, port].address.partition(":")
            with socket.socket() as talk:
                if talk.connect_ex((host, int(held))) == 0:
                    return True
        return False

    def kill(self) -> None:
        for node in self.nodes.values():
            if node.running:
                node.end(signal.SIGKILL)

    def _begin(self, number: int) -> None:
        own = MACHINES[number]
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": "1@alpha:9093,2@beta:9093,3@gamma:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{own}:9092,CONTROLLER://{own}:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._folder / f"node-{number}"),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            **NO_RETENTION_ROUND,
        }
        for name, value in settings.items():
            self._set(number, name, value)

    def _set(self, number: int, name: str, value: str) -> None:
        """With the addresses of this machine."""
        if name == "controller.quorum.voters" and not self._fixed:
            name, value = "controller.quorum.bootstrap.servers", re.sub(r"\d@", "", value)
        self._settings[number][name] = self._here(value)

    def _here(self, value: str) -> str:
        for (number, port), held in self._held.items():
            value = value.replace(f"{MACHINES[number]}:{port}", held.address)
        return value

    def _file(self, number: int) -> Path:
        return self._folder / f"node-{number}.properties"

    def _write(self, number: int) -> None:
        lines = [f"{name}={value}\n" for name, value in self._settings[number].items()]
        self._file(number).write_text("".join(lines))

    def _process(self, number: int) -> NodeProcess:
        command = [PENSTOCK, "serve", "--config", str(self._file(number))]
        return NodeProcess(f"node-{number}", command, self._folder / f"node-{number}.log")


class WorkingClients:
    """They are in `orders` all the time."""

    def __init__(self, way: Way) -> None:
        self.writers = [
            MovingWriter(name, way, TOPIC, partitions=PARTITIONS) for name in ("first", "second")
        ]
        self.reader = MovingReader(GROUP, way, TOPIC)
        self.ways = WaysIn()
        for one in (*self.writers, self.reader, self.ways):
            one.start()

    def until_go_on(self) -> None:
        until_go_on((*self.writers, self.reader))

    def move(self, way: Way) -> None:
        """One by one: in between, some are in by the old way and some by the new one."""
        for one in (*self.writers, self.reader):
            one.move(way)
            self.until_go_on()

    def finish(self) -> None:
        """All that was written is read, unless a test failed before."""
        for writer in self.writers:
            writer.finish()
        sent = sum(len(writer.sent) for writer in self.writers)
        until("all is read", lambda: len(self.reader.read) >= sent)
        self.close()

    def close(self) -> None:
        for one in (*self.writers, self.reader):
            if one.is_alive():
                one.finish()
        self.ways.finish()

    @property
    def errors(self) -> list[str]:
        return [error for one in (*self.writers, self.reader) for error in one.errors]


def roll(cluster: MovedCluster, clients: WorkingClients, step: Mapping[str, str], way: Way) -> None:
    """What an operator does; `way` is one that is open all the time."""
    for number, node in cluster.nodes.items():
        assert node.end() == 0, f"node {number}: {node.logged()[-3000:]}"
        clients.until_go_on()
        cluster.change(number, step)
        cluster.start(number)
        until(f"all is in sync with node {number}", lambda: is_in_sync(way))
        clients.until_go_on()


def topics_shown(way: Way) -> dict[str, TopicMetadata]:
    admin = AdminClient({**way, "log_level": QUIET})
    shown: dict[str, TopicMetadata] = admin.list_topics(timeout=WAIT_SECONDS).topics
    return shown


def is_in_sync(way: Way) -> bool:
    try:
        topics = topics_shown(way)
    except KafkaException:
        return False
    partitions = [one for topic in topics.values() for one in topic.partitions.values()]
    return TOPIC in topics and all(len(one.isrs) == 3 for one in partitions)


def stored(way: Way) -> list[str]:
    """All records of the topic."""
    consumer = Consumer(
        {**way, "group.id": GROUP, "enable.auto.commit": False, "enable.partition.eof": True}
        | {"log_level": QUIET}
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: list[str] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None
        value = message.value()
        if message.error() is not None:
            ended.add(message.partition())
        elif value is not None:
            found.append(value.decode())
    consumer.close()
    return found


@contextmanager
def moved_cluster(folder: Path, *, fixed: bool) -> Iterator[MovedCluster]:
    cluster = MovedCluster(folder, fixed=fixed)
    try:
        cluster.start(*MACHINES)
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run(command: str, **environment: str) -> Outcome:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        outcome = run_command(
            command, bootstrap=None, monkeypatch=monkeypatch, captured=capfdbinary
        )
        assert outcome.status == 0, outcome
        return outcome

    return run


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed voters", "voters in the metadata"])
def test_a_cluster_is_secured_while_clients_work_and_no_record_is_lost_or_doubled(
    tmp_path: Path, run: Run, fixed: bool
) -> None:
    add_listeners, use_them, remove_plain, close_rest = steps()
    with ExitStack() as opened:
        cluster = opened.enter_context(moved_cluster(tmp_path, fixed=fixed))
        plain, secured = cluster.plain(), cluster.secured("alice", "alice-secret")
        admin = AdminClient({**plain, "log_level": QUIET})
        [made] = admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values()
        made.result(WAIT_SECONDS)
        for user in ("admin", "alice", "bob"):
            command = f"users add {user} --bootstrap {cluster.bootstrap(PLAIN)}"
            run(command, PENSTOCK_USER_PASSWORD=f"{user}-secret")
        clients = WorkingClients(plain)
        opened.callback(clients.close)
        clients.ways.require(plain=plain)
        clients.until_go_on()

        roll(cluster, clients, add_listeners, plain)
        clients.ways.require(plain=plain, secured=secured)
        clients.move(secured)
        roll(cluster, clients, use_them, secured)
        clients.ways.require(secured=secured)
        roll(cluster, clients, remove_plain, secured)
        assert not cluster.is_open(PLAIN)
        assert not cluster.is_open(CONTROLLER)

        config = tmp_path / "admin.properties"
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=admin\n"
            "sasl.password=admin-secret\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={cluster.files.trusted}\n"
        )
        options = f"--bootstrap {cluster.bootstrap(CLIENTS)} --command-config {config}"
        for kind in ("topic", "group", "transactional-id"):
            run(f"acls add * all --{kind} * {options}")
        run(f"acls grant producer alice --topic {TOPIC} {options}")
        run(f"acls grant consumer alice --topic {TOPIC} --group {GROUP} {options}")
        roll(cluster, clients, close_rest, secured)
        bob = cluster.secured("bob", "bob-secret")
        assert TOPIC in topics_shown(bob)
        run(f"acls remove --principal * {options}")
        clients.until_go_on()
        until("others see nothing", lambda: not topics_shown(bob))
        clients.finish()
        found = stored(secured)
    assert clients.errors == []
    assert clients.ways.shut == []
    assert clients.ways.opened > 0
    sent = sorted(value for writer in clients.writers for value in writer.sent)
    assert sorted(value for writer in clients.writers for value in writer.acked) == sent
    assert sorted(found) == sent
    assert sorted(clients.reader.read) == sent
