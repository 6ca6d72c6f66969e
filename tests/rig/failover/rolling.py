"""Clients of every kind while the nodes of a cluster are restarted cleanly, one after the other.

    idempotent      producers of confluent-kafka, kafka-python and Java, with acks of all
    transactional   workers of confluent-kafka and Java that consume, transform and produce
    groups          members of both protocols, of confluent-kafka and Java, that commit

Start at `roll`, which is what an operator does: SIGTERM, start, wait until all is in sync, next. An
error that a client library gives to its application is a fault here, also one after which the call
may be repeated: nothing was lost, so there is nothing to tell.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rig.apache_kafka.java import compiled, java_command
from rig.cluster_questions import until
from rig.failover.cluster import ReplicatedCluster
from rig.failover.killed_node import open_transactions
from rig.failover.load import LedgerLoad
from rig.failover.proof import faults_at_the_end
from rig.failover.questions import create_replicated, until_in_sync
from rig.members.member import GroupMember, GroupOfMembers, python_member
from rig.pipeline.judgement import judge
from rig.pipeline.kinds import python_worker
from rig.pipeline.source import Source
from rig.pipeline.stream import SINK, SOURCE
from rig.pipeline.witness import Witness, read_sink
from rig.pipeline.worker import Worker
from rig.steady_producer import SteadyProducer

JAVA_FOLDER = Path(__file__).resolve().parents[1] / "java"
JAVA_PROGRAMS = ("LedgerProducer", "PipelineWorker", "GroupMember")
LEDGER, ORDERS = "ledger", "orders"
PARTITIONS = 6
SESSION_MS = 10_000
PROTOCOLS = ("classic", "consumer")
# Java's default names one that librdkafka does not have.
ASSIGNORS = {
    "confluent": "range",
    "java": "org.apache.kafka.clients.consumer.RangeAssignor",
}
FEED_RECORDS, FEED_SECONDS = 10, 0.1
ORDERS_PAUSE_SECONDS = 0.1
GOING_ON = 20  # records that come out of each client, to see that it goes on
SETTINGS = {"group.initial.rebalance.delay.ms": "500", "offsets.topic.num.partitions": "6"}


@dataclass(slots=True, kw_only=True)
class RollReport:
    """How much was carried, and what is wrong."""

    acked: int = 0
    carried: int = 0
    read: int = 0
    errors: list[str] = field(default_factory=list)  # that reached an application
    faults: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        return (
            f"{self.acked:,} records acked to producers, {self.carried:,} carried in transactions,"
            f" {self.read:,} read by groups; {len(self.errors)} errors reached applications,"
            f" {len(self.faults)} broken promises"
        )


def roll(
    cluster: ReplicatedCluster,
    clients: "RolledClients",
    *,
    told: Callable[[str], None] = lambda line: None,
) -> None:
    """Each node once. Clients go on while it is down, and when it is back."""
    for number, node in cluster.nodes.items():
        status = node.end()
        clean = status == cluster.software.clean_end
        assert clean, f"node {number} stopped with status {status}"
        clients.until_all_go_on()
        cluster.start(number)
        for topic in clients.topics:
            until_in_sync(cluster, topic)
        clients.until_all_go_on()
        told(f"node {number} was restarted; {clients.line}")


class RolledClients:
    """They work from now until `finish`. Without `jars` there are none of Java."""

    topics = (LEDGER, SOURCE, SINK, ORDERS, "__consumer_offsets", "__transaction_state")

    def __init__(
        self, cluster: ReplicatedCluster, folder: Path, *, jars: Path | None, rate: float
    ) -> None:
        self._cluster = cluster
        java = None
        if jars is not None:
            sources = [JAVA_FOLDER / f"{name}.java" for name in JAVA_PROGRAMS]
            classes = compiled(sources, jars=jars, folder=folder)
            java = java_command(jars, heap_mib=64, folder=folder, classes=classes)
        for topic in (LEDGER, ORDERS):
            create_replicated(cluster, topic, partitions=PARTITIONS)
        self._ledger = LedgerLoad(
            cluster.bootstrap,
            LEDGER,
            partitions=PARTITIONS,
            rate=rate,
            java=[*java, JAVA_PROGRAMS[0]] if java else None,
        )
        self._pipeline = Pipeline(
            cluster.bootstrap,
            folder,
            [
                python_worker("confluent-kafka"),
                *([[*java, JAVA_PROGRAMS[1]]] if java else []),
            ],
        )
        self._groups = Groups(cluster.bootstrap, [*java, JAVA_PROGRAMS[2]] if java else None)

    def begin(self) -> None:
        """Waits until all are at work; from then on none may notice anything."""
        self._groups.until_settled()
        self.until_all_go_on()
        self._groups.begin()

    @property
    def line(self) -> str:
        return (
            f"{self._ledger.acked:,} acked, {self._pipeline.carried:,} carried,"
            f" {self._groups.read:,} read"
        )

    def until_all_go_on(self) -> None:
        self._ledger.until_more_acked()
        self._pipeline.until_goes_on()
        self._groups.until_go_on()

    def finish(self) -> RollReport:
        """Waits until all that was written has come out, and judges it."""
        report = RollReport()
        self._ledger.finish()
        self._pipeline.finish(report)
        self._groups.finish(report)
        report.acked = self._ledger.acked
        report.errors += self._ledger.faults
        report.faults += faults_at_the_end(
            self._cluster, LEDGER, self._ledger.records, partitions=PARTITIONS
        )
        until("no transaction is open", lambda: not open_transactions(self._cluster))
        return report

    def close(self) -> None:
        """Ends what still runs."""
        self._ledger.finish()
        self._pipeline.close()
        self._groups.close()


class Pipeline:
    """Workers that carry numbers from one topic to another, and somebody who writes the numbers."""

    def __init__(self, bootstrap: str, folder: Path, commands: Sequence[list[str]]) -> None:
        self._bootstrap = bootstrap
        self._source = Source(bootstrap)
        self._witness = Witness(bootstrap)
        given = {
            "bootstrap.servers": bootstrap,
            "group.id": "pipeline",
            "session.timeout.ms": str(SESSION_MS),
        }
        self._workers = [
            Worker(command, given, name=f"worker{index}", log=folder / f"worker{index}.log")
            for index, command in enumerate(commands)
        ]
        for worker in self._workers:
            worker.start()
        self._enough = threading.Event()
        self._feeder = threading.Thread(target=self._feed, name="feeder")
        self._feeder.start()

    @property
    def carried(self) -> int:
        return self._witness.distinct

    def until_goes_on(self) -> None:
        """By every worker: each has partitions of its own."""
        commits = [len(worker.commits) for worker in self._workers]
        wanted = self.carried + GOING_ON

        def goes_on() -> bool:
            self._assert_running()
            now = [len(worker.commits) for worker in self._workers]
            return self.carried >= wanted and all(
                after > before for before, after in zip(commits, now, strict=True)
            )

        until("more is carried by every worker", goes_on)

    def finish(self, report: RollReport) -> None:
        self._stop_feeding()
        until("all is carried", lambda: self.carried >= self._source.written)
        for worker in self._workers:
            worker.close()
        at_end = read_sink(self._bootstrap, committed=True)
        until("all is seen", lambda: len(self._witness.seen) >= len(at_end))
        commits = {attempt: at for one in self._workers for attempt, at in one.commits.items()}
        judgement = judge(
            self._witness.seen, records=self._source.written, commits=commits, at_end=at_end
        )
        report.carried = judgement.read
        report.faults += [f"carried: {count} {what}" for what, count in judgement.faults.items()]
        report.errors += [error for worker in self._workers for error in worker.errors]

    def close(self) -> None:
        self._stop_feeding()
        for worker in self._workers:
            if worker.runs:
                worker.kill()
        self._witness.close()

    def _feed(self) -> None:
        while not self._enough.wait(FEED_SECONDS):
            self._source.write(FEED_RECORDS)

    def _stop_feeding(self) -> None:
        self._enough.set()
        self._feeder.join()

    def _assert_running(self) -> None:
        for worker in self._workers:
            assert worker.runs, f"a worker ended by itself: {worker.ends}"


class Groups:
    """A group of each protocol, with a member of each client, on one topic."""

    def __init__(self, bootstrap: str, java: list[str] | None) -> None:
        commands = {"confluent": python_member("confluent_member")}
        if java is not None:
            commands["java"] = java
        self._feeding = SteadyProducer(
            bootstrap=bootstrap,
            topic=ORDERS,
            partitions=PARTITIONS,
            pause_seconds=ORDERS_PAUSE_SECONDS,
        )
        self._feeding.__enter__()
        self._groups: dict[GroupOfMembers, list[GroupMember]] = {}
        for protocol in PROTOCOLS:
            group = GroupOfMembers(
                bootstrap=bootstrap, topic=ORDERS, partitions=PARTITIONS, group=protocol
            )
            self._groups[group] = [
                group.start(command, **self._settings(protocol, client))
                for client, command in commands.items()
            ]
        self._changes: dict[GroupMember, int] = {}

    @property
    def read(self) -> int:
        return sum(len(member.read) for member in self._members)

    def until_settled(self) -> None:
        for group, members in self._groups.items():
            group.await_shared_by(*members)

    def begin(self) -> None:
        """From now on no member may lose what it owns."""
        self._changes = {member: member.changes for member in self._members}

    def until_go_on(self) -> None:
        for group, members in self._groups.items():
            before = [(member, len(member.read)) for member in members]
            group.await_that(partial(read_on, before), "every member reads on")

    def finish(self, report: RollReport) -> None:
        self._feeding.__exit__(None, None, None)
        for group, members in self._groups.items():
            group.await_read(self._feeding.stored)
            for member in members:
                if member.changes != self._changes[member]:
                    report.faults.append(f"{group.name}: a member lost what it owned")
            twice = sum(count > 1 for count in group.read().values())
            if twice:
                report.faults.append(f"{group.name}: {twice} records were read twice")
            report.errors += [f"{group.name}: {error}" for one in members for error in one.errors]
        report.read = self.read

    def close(self) -> None:
        self._feeding.__exit__(None, None, None)
        for group in self._groups:
            group.end()

    @property
    def _members(self) -> list[GroupMember]:
        return [member for members in self._groups.values() for member in members]

    def _settings(self, protocol: str, client: str) -> dict[str, str]:
        settings = {"group_protocol": protocol}
        if protocol == "classic":
            settings["partition_assignment_strategy"] = ASSIGNORS[client]
        return settings


def read_on(before: Sequence[tuple[GroupMember, int]]) -> bool:
    """Whether each has read more than it had."""
    return all(len(member.read) > count for member, count in before)
