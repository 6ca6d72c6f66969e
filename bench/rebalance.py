"""How long a group takes to share its partitions: at first, after a leave, after a kill.

    python bench/rebalance.py [--rounds N] [--members 10] [--broker penstock] [--protocols ...]
    python bench/rebalance.py --storm 60 [--seed 1]

Ten consumers of confluent-kafka, each a process of its own, on a topic of twice as many partitions.
Both brokers run in the same run with the same settings, the ones of Apache Kafka's distribution: no
initial delay. Times end when the members that are left own all partitions, none of them twice,
and each its fair share; they begin

    stable   when the members, started and connected before, are told to subscribe
    leave    when one of them is told to close
    kill     when one of them is killed; the session of 6 s has to end first

Each round is a group of its own. The table shows medians.

With --storm, members of Penstock's groups come, leave and are killed at random for so many seconds
while records are written; see tests/rig/members/storm.py for what is asserted of it.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection, wait
from pathlib import Path

from brokers import TESTS, ApacheKafka, Broker, Penstock, forget_topic, kafka_jars, topic_on
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

# A storm is the tests' own.
sys.path.append(str(TESTS))

from rig.members.kinds import Kind
from rig.members.member import python_member
from rig.members.storm import Weather, rage

SESSION_MS = 6000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
}
HEARTBEAT_MS = 500
PATIENCE_SECONDS = 90.0
QUIET = 2
QUESTIONS = ("stable", "leave", "kill")
# By name, what the consumers are told. A protocol in which the broker assigns has no assignor.
PROTOCOLS: dict[str, dict[str, str | int]] = {
    "range": {
        "partition.assignment.strategy": "range",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    },
    "cooperative-sticky": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    },
    "consumer": {"group.protocol": "consumer"},  # KIP-848: sessions and heartbeats are the broker's
}
SETTLE_SECONDS = 5  # after a storm, beyond the session of a member that was killed last
CONFLUENT, KAFKA_PYTHON = python_member("confluent_member"), python_member("kafka_python_member")
# By name, who takes part in a storm.
CROWDS: dict[str, tuple[tuple[list[str], str], ...]] = {
    "range": ((CONFLUENT, "range"),),
    "range, with kafka-python": ((CONFLUENT, "range"), (KAFKA_PYTHON, "range")),
    "cooperative-sticky": ((CONFLUENT, "cooperative-sticky"),),
    "consumer": ((CONFLUENT, "consumer"),),
}


def consume(pipe: Connection, settings: dict[str, str | int], topic: str) -> None:
    """A member's process: says what it owns whenever that changes."""
    owned: set[int] = set()

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        owned.update(partition.partition for partition in partitions)
        pipe.send((time.monotonic(), frozenset(owned)))

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        owned.difference_update(partition.partition for partition in partitions)
        pipe.send((time.monotonic(), frozenset(owned)))

    consumer = Consumer(settings)
    consumer.list_topics(topic, timeout=30)
    pipe.send((time.monotonic(), frozenset()))
    assert pipe.recv() == "subscribe"
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not pipe.poll():
        consumer.poll(0.05)
    consumer.close()


class Member:
    def __init__(self, settings: dict[str, str | int], topic: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.owned: frozenset[int] = frozenset()
        self.process = context.Process(target=consume, args=(theirs, settings, topic), daemon=True)
        self.process.start()
        theirs.close()

    def tell(self, word: str) -> None:
        self.pipe.send(word)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


class Group:
    def __init__(self, broker: Broker, protocol: str, *, members: int, name: str) -> None:
        self.broker = broker
        self.topic = name
        self.partitions = frozenset(range(2 * members))
        topic_on(broker, name, len(self.partitions))
        host, port = broker.address
        settings: dict[str, str | int] = {
            "bootstrap.servers": f"{host}:{port}",
            "group.id": name,
            "log_level": QUIET,
            **PROTOCOLS[protocol],
        }
        self.members = [Member(settings, name) for _ in range(members)]
        for member in self.members:
            member.pipe.recv()

    def seconds_to_stable(self) -> float:
        began = time.monotonic()
        for member in self.members:
            member.tell("subscribe")
        return self._shared_at() - began

    def seconds_after_leave(self) -> float:
        leaving = self.members.pop()
        began = time.monotonic()
        leaving.tell("close")
        taken = self._shared_at() - began
        leaving.process.join(PATIENCE_SECONDS)
        return taken

    def seconds_after_kill(self) -> float:
        killed = self.members.pop()
        began = time.monotonic()
        killed.end()
        return self._shared_at() - began

    def end(self) -> None:
        for member in self.members:
            member.end()
        forget_topic(self.broker, self.topic)

    def _shared_at(self) -> float:
        """When the last member was told what made the sharing complete."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        latest = 0.0
        by_pipe = {member.pipe: member for member in self.members}
        while not self._is_shared():
            ready = wait(list(by_pipe), timeout=deadline - time.monotonic())
            if not ready:
                raise SystemExit(f"{self.broker.name}: the group did not share its partitions")
            for pipe in ready:
                assert isinstance(pipe, Connection)
                at, by_pipe[pipe].owned = pipe.recv()
                latest = max(latest, at)
        return latest

    def _is_shared(self) -> bool:
        owned = [member.owned for member in self.members]
        fair = len(self.partitions) // len(self.members)
        return (
            frozenset().union(*owned) == self.partitions
            and sum(map(len, owned)) == len(self.partitions)
            and all(fair <= len(part) <= fair + 1 for part in owned)
        )


def measure(broker: Broker, protocol: str, *, members: int, number: int) -> dict[str, float]:
    group = Group(broker, protocol, members=members, name=f"rebalance-{protocol}-{number}")
    try:
        return {
            "stable": group.seconds_to_stable(),
            "leave": group.seconds_after_leave(),
            "kill": group.seconds_after_kill(),
        }
    finally:
        group.end()


def table_of(brokers: Iterable[Broker], seconds: dict[tuple[str, str, str], list[float]]) -> Table:
    table = Table("protocol", "question")
    for broker in brokers:
        table.add_column(broker.name, justify="right")
    for protocol in dict.fromkeys(protocol for _, protocol, _ in seconds):
        for question in QUESTIONS:
            cells = []
            for broker in brokers:
                taken = seconds[broker.name, protocol, question]
                spread = f"{min(taken):.2f}-{max(taken):.2f}"
                cells.append(f"{statistics.median(taken):.2f} s ({spread})")
            table.add_row(protocol, question, *cells)
    return table


def storms(seconds: float, *, seed: int) -> Table:
    """One storm for each crowd; the first thing that does not hold ends it all."""
    table = Table("group", "joins", "leaves", "kills", "records", "read again", "settled in")
    with tempfile.TemporaryDirectory(prefix="penstock-storm-") as folder:
        broker = Penstock(Path(folder) / "penstock", settings=SETTINGS)
        broker.start()
        try:
            for number, (name, crowd) in enumerate(CROWDS.items()):
                weather = Weather(
                    seconds=seconds,
                    seed=seed,
                    kinds=[member_kind(*member) for member in crowd],
                    settle_seconds_max=SESSION_MS / 1000 + SETTLE_SECONDS,
                )
                host, port = broker.address
                storm = rage(bootstrap=f"{host}:{port}", name=f"storm-{number}", weather=weather)
                print(name, storm, file=sys.stderr)
                counts = (storm.joins, storm.leaves, storm.kills, storm.records, storm.repeated)
                table.add_row(name, *map(str, counts), f"{storm.settled_seconds:.1f} s")
        finally:
            broker.stop()
    return table


def member_kind(command: list[str], protocol: str) -> Kind:
    settings = {name.replace(".", "_"): str(value) for name, value in PROTOCOLS[protocol].items()}
    return Kind(command=command, settings=settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--broker", choices=("penstock", "kafka"))
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument("--storm", type=float, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    if options.storm is not None:
        console.print(storms(options.storm, seed=options.seed))
        return
    with tempfile.TemporaryDirectory(prefix="penstock-rebalance-") as folder:
        brokers: list[Penstock | ApacheKafka] = []
        if options.broker != "kafka":
            brokers.append(Penstock(Path(folder) / "penstock", settings=SETTINGS))
        if options.broker != "penstock":
            jars = kafka_jars()
            if isinstance(jars, str):
                console.print(f"without Apache Kafka: {jars}")
            else:
                brokers.append(ApacheKafka(Path(folder) / "kafka", jars=jars, settings=SETTINGS))
        seconds: dict[tuple[str, str, str], list[float]] = {}
        try:
            for broker in brokers:
                broker.start()
            for number in range(options.rounds):
                for protocol in options.protocols.split(","):
                    for broker in brokers:
                        taken = measure(broker, protocol, members=options.members, number=number)
                        for question, value in taken.items():
                            seconds.setdefault((broker.name, protocol, question), []).append(value)
                        print(broker.name, protocol, taken, file=sys.stderr)
        finally:
            for broker in brokers:
                broker.stop()
        console.print(table_of(brokers, seconds))


if __name__ == "__main__":
    main()
