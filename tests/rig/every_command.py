"""Every command of `penstock` that prints something, and a cluster whose names are hostile.

`CASES` has a line or more for each command, `ELSEWHERE` the files that test the others. A line may
hold `{evil}`, the hostile name as a shell reads it; `{number}`, another one at each run, so that
what is made or deleted is new; `{folder}`, a folder that is not there yet; `{data}`, a node's;
`{topology}`, a file of topics.
"""

import itertools
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Flag, auto

import click
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.cli.main import penstock
from rig.source_tree import ROOT

HOSTILE = "evil\x1b[2J\nforged \x9b31m\u202e[red]x[/red]"
SHOWN = "evil\\x1b[2J\\nforged \\x9b31m\\u202e[red]x[/red]"
LETTERS = "orders.dead-letters"
TOPIC_OF_PERF = "topics create perf --if-not-exists"
TOPOLOGY = ROOT / "src/penstock/spark/pipelines/clickstream/topology.toml"
NUMBERS = itertools.count(1)
WAIT_SECONDS = 60


class Evil(Flag):
    """Where a command shows the hostile name."""

    NOWHERE = 0
    TABLE = auto()
    JSON = auto()


@dataclass(frozen=True, kw_only=True)
class Case:
    """How one command is run. `before` prepares each run."""

    line: str
    before: tuple[str, ...] = ()
    evil: Evil = Evil.NOWHERE
    status: int = 0
    has_json: bool = True
    json_lines: bool = False  # one object a line
    traces: bool = False  # lines as long as they are
    prints_bytes: bool = False  # values of records, which a pipe gets as they are
    logs_in: bool = False
    only_penstock: bool = (
        False  # it is about files of ours, or needs what the peer is not set up for
    )

    def lines(self, *, folder: str, data: str = "") -> list[str]:
        """What is typed: what prepares it, and the command itself."""
        number = next(NUMBERS)
        evil = shlex.quote(HOSTILE)
        return [
            one.format(
                evil=evil,
                number=number,
                folder=f"{folder}/{number}",
                data=data,
                topology=TOPOLOGY,
            )
            for one in (*self.before, self.line)
        ]


def strings_of(value: object) -> Iterator[str]:
    """Of a value of JSON, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from strings_of(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings_of(one)


def commands() -> list[str]:
    """All that there are, as they are typed."""

    def within(command: click.Command, words: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(command, click.Group):
            yield " ".join(words)
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from within(found, (*words, name))

    return list(within(penstock, ()))


TABLE, JSON, BOTH = Evil.TABLE, Evil.JSON, Evil.TABLE | Evil.JSON

CASES = (
    Case(line="storage format --data {folder}", only_penstock=True),
    Case(
        line="storage info --data {folder}",
        before=("storage format --data {folder}",),
        only_penstock=True,
    ),
    Case(line="storage random-uuid", has_json=False, only_penstock=True),
    Case(line="security init {folder}", only_penstock=True),
    Case(line=f"log dump {{data}}/orders-0/{0:020d}.log", only_penstock=True),
    Case(line=f"log dump --records {{data}}/orders-0/{0:020d}.log", evil=BOTH, only_penstock=True),
    Case(line="cluster describe"),
    Case(line="cluster describe --versions"),
    Case(line="cluster features"),
    Case(line="cluster log-dirs"),
    Case(line="cluster log-dirs --partitions"),
    Case(line="cluster quorum"),
    Case(line="topics create made-{number} --partitions 2"),
    Case(line="topics alter made-{number} --partitions 3", before=("topics create made-{number}",)),
    Case(line="topics delete made-{number}", before=("topics create made-{number}",)),
    Case(line="topics delete-records orders:0 --before 0"),
    Case(line="topics describe orders"),
    Case(line="topics list --internal"),
    Case(line="topics offsets"),
    Case(line="partitions balance --for 1s --dry-run"),
    Case(line="partitions elect-leaders --all"),
    Case(line="partitions hot --for 1s --keys 3"),
    Case(line="partitions reassign --verify"),
    Case(line="top --once --interval 0.1", evil=BOTH),
    Case(line="alerts"),
    Case(line="plan partitions --throughput 100 --partition-throughput 10 --consumers 30"),
    Case(line="plan disk --throughput 100 --retention 7d --brokers 6"),
    Case(line="plan metadata --partitions 4000 --brokers 6"),
    Case(
        line="plan cluster --throughput 100 --partition-throughput 10 --consumers 30 --brokers 6"
        " --retention 7d"
    ),
    Case(line="doctor", evil=BOTH, status=1),
    Case(line="configs describe --topic orders --all"),
    Case(line="configs describe --broker 1 --all"),
    Case(line="configs describe --group {evil}", evil=TABLE),
    Case(line="configs alter --group {evil} --set consumer.session.timeout.ms=50000", evil=BOTH),
    Case(line="groups list", evil=BOTH),
    Case(line="groups describe {evil}", evil=BOTH),
    Case(line="groups reset-offsets {evil} --topic orders --to-earliest", evil=JSON),
    Case(line="groups delete-offsets {evil} --topic made", evil=BOTH),
    Case(
        line="groups delete {evil}-{number}",
        before=("consume orders --group {evil}-{number} --commit",),
        evil=BOTH,
    ),
    Case(line="users add {evil}", evil=BOTH),
    Case(line="users list", before=("users add {evil}",), evil=BOTH),
    Case(line="users remove {evil}", before=("users add {evil}",), evil=BOTH),
    Case(line="tokens create --renewer {evil}", evil=JSON, logs_in=True, only_penstock=True),
    Case(
        line="tokens list",
        before=("tokens create --renewer {evil}",),
        evil=BOTH,
        logs_in=True,
        only_penstock=True,
    ),
    Case(line="transactions list", evil=BOTH),
    Case(line="transactions describe {evil}", evil=BOTH),
    Case(line="transactions hanging --older-than 0s", evil=BOTH),
    Case(line="transactions recover"),
    Case(line="acls add User:{evil} read --group {evil}", evil=BOTH),
    Case(line="acls list", before=("acls add User:{evil} read --group {evil}",), evil=BOTH),
    Case(
        line="acls remove --principal User:{evil} --topic made-{number}",
        before=("acls add User:{evil} write --topic made-{number}",),
        evil=BOTH,
    ),
    Case(line="acls grant admin User:{evil}", evil=BOTH),
    Case(line="acls grant consumer User:{evil} --topic orders --group {evil}", evil=BOTH),
    Case(line="acls grant producer User:{evil} --topic orders", evil=BOTH),
    Case(line="acls grant spark User:{evil} --read orders --write orders", evil=BOTH),
    Case(line="consume orders --max 1", evil=BOTH, json_lines=True, prints_bytes=True),
    Case(line=f"dlq list {LETTERS}", evil=BOTH),
    Case(line=f"dlq replay {LETTERS} --dry-run", evil=BOTH),
    Case(line="perf produce perf --records 100 --size 100", before=(TOPIC_OF_PERF,)),
    Case(line="perf consume orders --records 1"),
    Case(line="perf latency perf --seconds 1 --rate 10", before=(TOPIC_OF_PERF,)),
    Case(line="pipeline list"),
    Case(line="pipeline generate clickstream --count 10 --seed 1"),
    Case(line="topics apply {topology} --dry-run"),
    Case(line="transactions abort --sink {evil}", evil=TABLE),
    Case(line="sim run --seeds 2 --workers 1", only_penstock=True),
    Case(line="sim crash 1 --stride 500", has_json=False, only_penstock=True),
    Case(line="sim replay 1", has_json=False, traces=True, only_penstock=True),
    Case(line="sim quorum --seeds 2 --workers 1", only_penstock=True),
    Case(line="sim quorum-replay 1", has_json=False, traces=True, only_penstock=True),
    Case(line="sim replication --seeds 2 --workers 1", only_penstock=True),
    Case(line="sim replication-replay 1", has_json=False, traces=True, only_penstock=True),
    Case(line="sim scale --nodes 3 --partitions 30 --replicas 2", only_penstock=True),
)

ELSEWHERE = {
    "serve": "cli/test_serve.py",
    "cluster add-controller": "cli/test_cluster_members.py",
    "cluster remove-controller": "cli/test_cluster_members.py",
    "cluster unregister": "cli/test_cluster_members.py",
    "cluster upgrade": "cli/test_cluster_members.py",
    "tokens expire": "cli/test_tokens.py",
    "tokens renew": "cli/test_tokens.py",
    "produce": "cli/test_records.py",
    "pipeline run": "cli/test_pipeline.py",
    "cdc cache": "spark/test_cdc_command.py",
    "cdc capture": "spark/test_cdc_command.py",
    "cdc index": "spark/test_cdc_command.py",
    "cdc search": "spark/test_cdc_command.py",
    "demo": "cli/test_command.py",
}


@contextmanager
def evil_cluster(bootstrap: str) -> Iterator[None]:
    """Groups, producers and records whose names and bytes are hostile, on any cluster."""
    client: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    evil = HOSTILE.encode()
    admin = AdminClient(client)
    topics = [NewTopic(name, 2, 1) for name in ("orders", "made", LETTERS)]
    for made in admin.create_topics(topics).values():
        made.result(WAIT_SECONDS)
    producer = Producer({**client, "enable.idempotence": True})
    for partition in range(2):
        producer.produce("orders", evil, key=evil, headers={HOSTILE: evil}, partition=partition)
    headers = {
        "penstock.dlq.topic": b"orders",
        "penstock.dlq.partition": b"0",
        "penstock.dlq.offset": b"0",
        "penstock.dlq.timestamp": b"1000",
        "penstock.dlq.reason": evil,
    }
    producer.produce(LETTERS, evil, key=evil, headers=headers, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer({**client, "group.id": HOSTILE})
    places = [TopicPartition("orders", 0, 0), TopicPartition("made", 0, 0)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    held = Producer({**client, "transactional.id": HOSTILE, "transaction.timeout.ms": 900_000})
    held.init_transactions(WAIT_SECONDS)
    held.begin_transaction()
    held.produce("made", evil, partition=0)
    assert held.flush(WAIT_SECONDS) == 0
    try:
        yield
    finally:
        held.abort_transaction(WAIT_SECONDS)
