"""Every command of `penstock` that prints something, and a cluster whose names are hostile.

`CASES` has a line or more for each command, `ELSEWHERE` the tests of the others. A line may hold
`{evil}`, the hostile name as a shell reads it; `{number}`, another one at each run, so that what is
made or deleted is new; `{folder}`, a folder that is not there yet; `{data}`, a node's;
`{topology}`, a file of topics; `{lines}` and `{controller}`, files that `write_files` has written;
`{token}`, the token of `evil_token`.
"""

import itertools
import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Flag, auto
from pathlib import Path

import click
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.cli.main import penstock
from rig.command import Outcome
from rig.source_tree import ROOT
from rig.tokens import USERS, create, logged_in, seen

HOSTILE = "evil\x1b[2J\nforged \x9b31m\u202e[red]x[/red]"
SHOWN = "evil\\x1b[2J\\nforged \\x9b31m\\u202e[red]x[/red]"
IN_A_SENTENCE = SHOWN.replace("\\n", " ")  # an error is one line
LETTERS = "orders.dead-letters"
ROWS = "db.public.rows"  # what `cdc capture` writes for a table
TOPIC_OF_PERF = "topics create perf --if-not-exists"
TOPOLOGY = ROOT / "src/penstock/spark/pipelines/clickstream/topology.toml"
LINES, CONTROLLER = "hostile.lines", "controller.properties"
FORMATTED = (
    "storage format --config {controller} --cluster-id AAAAAAAAAAAAAAAAAAAAAQ"
    " --no-initial-controllers --ignore-formatted"
)
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
    only_penstock: bool = False  # it is about files or nodes of ours, or about simulations
    said: str = ""  # on standard error, in the one line there; the table is empty

    @property
    def is_refused(self) -> bool:
        """With one line, and no JSON."""
        return bool(self.said) and self.status != 0

    def lines(self, *, folder: str, data: str = "", token: str = "") -> list[str]:
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
                lines=f"{folder}/{LINES}",
                controller=f"{folder}/{CONTROLLER}",
                token=token,
            )
            for one in (*self.before, self.line)
        ]

    def check_table(self, found: Outcome) -> None:
        """What a pipe got: harmless lines, which show the hostile name where they should."""
        if self.prints_bytes:
            assert HOSTILE in found.text
            return
        assert all(map(is_harmless, found.lines))
        if self.said:
            assert found.out == b""
            assert found.err.count("\n") == 1
            assert self.said in found.err
        shown = found.err if self.said else found.text
        assert (SHOWN in shown) == (Evil.TABLE in self.evil)

    def check_json(self, found: Outcome) -> None:
        """It is harmless too, and holds names as they are."""
        if self.is_refused:
            self.check_table(found)
            return
        assert all(map(is_harmless, found.lines))
        values = [json.loads(one) for one in (found.lines if self.json_lines else [found.text])]
        holds = any(HOSTILE in text for text in strings_of(values))
        assert holds == (Evil.JSON in self.evil)


def is_harmless(line: str) -> bool:
    """A terminal shows it as it is; a tab stands between columns."""
    return line.replace("\t", "").isprintable()


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
    Case(line="cluster upgrade metadata.version=30"),
    Case(line="cluster upgrade metadata.version=30 --dry-run"),
    Case(line="cluster upgrade {evil}=1", status=1, said=IN_A_SENTENCE),
    Case(line="cluster unregister 9", status=1, said="there is no broker 9, only 1"),
    Case(line="cluster unregister 1", status=1, said="broker 1 is running"),
    Case(line="cluster unregister {evil}", status=2, said="'ID'", evil=TABLE),
    Case(line="cluster remove-controller 9", status=1, said="controller 9 does not vote"),
    Case(
        line="cluster remove-controller 1 --directory-id {evil}",
        status=2,
        said="--directory-id: ",
    ),
    Case(
        line="cluster add-controller --config {controller}",
        before=(FORMATTED,),
        status=1,
        said="controller 7",
    ),
    Case(line="cluster add-controller --config {evil}", status=2, said="'--config'", evil=TABLE),
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
    Case(line="alerts", only_penstock=True),
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
    Case(line="tokens create --renewer {evil}", evil=JSON, logs_in=True),
    Case(line="tokens list", evil=BOTH, logs_in=True),
    Case(line="tokens renew {token} --for 1h", logs_in=True),
    Case(
        line="tokens renew {evil}",
        status=1,
        said=f"token {IN_A_SENTENCE}: DELEGATION_TOKEN_NOT_FOUND",
        logs_in=True,
    ),
    Case(line="tokens expire {token} --after 2h", logs_in=True),
    Case(
        line="tokens expire {evil}",
        status=1,
        said=f"token {IN_A_SENTENCE}: DELEGATION_TOKEN_NOT_FOUND",
        logs_in=True,
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
    Case(
        line="produce made {lines} --headers {evil}={evil}",
        said="produced 2 records to made",
    ),
    Case(
        line="produce made {lines} --key-separator =",
        status=1,
        said="a line without the key separator: 'evil\\x1b[2J'",
    ),
    Case(line=f"cdc index --topic {ROWS} --file {{folder}} --once", has_json=False),
    Case(
        line="cdc search {folder} forged",
        before=(f"cdc index --topic {ROWS} --file {{folder}} --once",),
        evil=BOTH,
        json_lines=True,
    ),
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

# Why they are no cases: `serve` runs until it is told to stop, `capture` needs PostgreSQL and
# `cache` Redis, a run of a pipeline starts Spark, and `demo` starts a node of its own.
ELSEWHERE = {
    "serve": "cli/test_serve.py::test_node_formats_serves_and_stops_cleanly_when_told",
    "pipeline run": "spark/test_pipeline_command.py"
    "::test_a_pipeline_runs_until_ctrl_c_and_then_tells_what_it_did",
    "cdc capture": "spark/test_cdc_command.py"
    "::test_changes_are_in_the_topic_once_though_the_process_is_killed",
    "cdc cache": "spark/test_cdc_command.py::test_index_and_cache_follow_and_are_asked",
    "demo": "cli/test_command.py::test_plain_demo_writes_reads_and_checks",
}


def write_files(folder: Path) -> None:
    """Lines for `produce`, and the settings of a controller that belongs to no cluster yet."""
    (folder / LINES).write_text(f"{HOSTILE}\n", "utf-8")
    settings = {
        "process.roles": "controller",
        "node.id": "7",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:1",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "controller-7"),
    }
    text = "".join(f"{name}={value}\n" for name, value in settings.items())
    (folder / CONTROLLER).write_text(text, "utf-8")


def write_config(file: Path) -> Path:
    """How alice logs in where tokens are."""
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        f'PlainLoginModule required username="alice" password="{USERS["alice"]}";\n'
    )
    return file


def evil_token(bootstrap: str) -> str:
    """The id of a token that the hostile name may renew, once the broker knows it."""
    talk = logged_in(bootstrap, "alice")
    made = create(talk, HOSTILE)
    deadline = time.monotonic() + WAIT_SECONDS
    while made.token_id not in seen(talk):  # Apache Kafka's hears of it after its reply
        assert time.monotonic() < deadline
    talk.close()
    return made.token_id


@contextmanager
def evil_cluster(bootstrap: str) -> Iterator[None]:
    """Groups, producers and records whose names and bytes are hostile, on any cluster."""
    client: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    evil = HOSTILE.encode()
    admin = AdminClient(client)
    topics = [NewTopic(name, 2, 1) for name in ("orders", "made", LETTERS, ROWS)]
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
    row = json.dumps({"id": 1, "name": HOSTILE})
    producer.produce(ROWS, row.encode(), key=evil, partition=0)
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
