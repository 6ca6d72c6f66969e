"""`penstock produce`: a record for each line of standard input or of files."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from penstock.cli import status
from penstock.cli.connect import until_interrupted, with_cluster
from penstock.cli.lines import lines_of
from penstock.cli.options import cluster_options
from penstock.cli.show import OutputConsole, print_json
from penstock.cli.typed_text import ANY_BYTES, typed_bytes
from penstock.client.network.cluster import Cluster
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Acks, Delivery, Producer, ProducerRules
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import PenstockError
from penstock.records.compression import Codec
from penstock.records.record import Headers

ACKS = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}
DELIVERIES_HELD_MAX = 50_000
TRANSACTION_MS = 900_000  # the most that brokers allow unless they are told otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRules:
    """How a line becomes a record."""

    key_separator: bytes | None
    null_marker: bytes | None
    headers: Headers
    partition: int | None


class BadLine(click.ClickException):
    """A line that is no record by the rules."""

    def after(self, count: int) -> "BadLine":
        before = "the record before it was" if count == 1 else f"the {count} records before it were"
        return BadLine(f"{self.message} ({before} produced)")


class Unfinished(PenstockError):
    """An error, and how many records were written all the same."""


class Interrupted(click.ClickException):
    """Ctrl-C; says what is written."""

    exit_code = status.INTERRUPTED


@dataclass(slots=True)
class Tally:
    """What became of the records; deliveries are looked at in turn, so that few are held."""

    delivered: int = 0
    held: list[Delivery] = field(default_factory=list)

    async def add(self, delivery: Delivery) -> None:
        self.held.append(delivery)
        if len(self.held) >= DELIVERIES_HELD_MAX:
            await self.settle()

    async def settle(self) -> None:
        """Waits for all and counts those that were delivered; raises the first that failed."""
        if self.held:
            await asyncio.wait(self.held)  # an interruption leaves them as they are
        held, self.held = self.held, []
        failures = [failure for one in held if (failure := one.exception()) is not None]
        self.delivered += len(held) - len(failures)
        if failures:
            raise failures[0]


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key-separator", type=ANY_BYTES, metavar="TEXT", help="What stands between key and value."
)
@click.option(
    "--headers",
    type=ANY_BYTES,
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every record; repeatable.",
)
@click.option(
    "--null-marker", type=ANY_BYTES, metavar="TEXT", help="A key or value of this text is null."
)
@click.option("--partition", type=click.IntRange(min=0), help="Default: by key, else spread.")
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True,
              help="Whose ack a record waits for: all in-sync replicas, the leader, nobody.",
)  # fmt: skip
@click.option(
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
    help="Of batches.",
)
@click.option(
    "--transactional-id", metavar="ID", help="Write all records in one transaction of this id."
)
@cluster_options
def produce(
    topic: str,
    files: tuple[Path, ...],
    key_separator: str | None,
    headers: tuple[str, ...],
    null_marker: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    transactional_id: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Write each line of standard input, or of FILES, as a record to TOPIC.

    With --transactional-id, readers of committed records see all of them or, after an error, none.
    """
    if transactional_id is not None and acks != "all":
        raise click.UsageError("a transaction needs --acks all")
    line_rules = LineRules(
        key_separator=None if key_separator is None else _separator(key_separator),
        null_marker=None if null_marker is None else typed_bytes(null_marker),
        headers=tuple(_header(text) for text in headers),
        partition=partition,
    )
    rules = ProducerRules(
        acks=ACKS[acks],
        batches=BatchRules(idempotent=acks == "all", codec=Codec[compression.upper()]),
    )

    async def work_in_transaction(cluster: Cluster) -> int:
        assert transactional_id is not None
        await cluster.need((topic,))
        tally = Tally()
        in_transaction = TransactionRules(timeout_ms=TRANSACTION_MS, batches=rules.batches)
        producer = TransactionalProducer(cluster, transactional_id, rules=in_transaction)
        async with producer, producer.transaction():
            if not await until_interrupted(_produce(producer, topic, files, line_rules, tally)):
                raise Interrupted("interrupted: the transaction is aborted, nothing is written")
            await producer.flush()
            await tally.settle()
        return tally.delivered

    async def work(cluster: Cluster) -> int:
        await cluster.need((topic,))
        tally = Tally()
        try:
            async with Producer(cluster, rules=rules) as producer:
                try:
                    finished = await _produce_all(producer, topic, files, line_rules, tally)
                except PenstockError as error:
                    # What was accepted is on its way all the same.
                    await producer.flush()
                    with suppress(PenstockError):
                        await tally.settle()
                    raise Unfinished(f"{error} ({produced(tally.delivered, topic)})") from error
                if not finished:
                    raise Interrupted(f"interrupted: {produced(tally.delivered, topic)}")
        finally:
            # What was given up is told by the error that ended it.
            await asyncio.gather(*tally.held, return_exceptions=True)
        return tally.delivered

    count = with_cluster(bootstrap, work if transactional_id is None else work_in_transaction)
    if as_json:
        print_json({"topic": topic, "records": count})
    else:
        click.echo(produced(count, topic), err=True)


def produced(count: int, topic: str) -> str:
    return f"produced {'1 record' if count == 1 else f'{count} records'} to {topic}"


async def _produce_all(
    producer: Producer, topic: str, files: Sequence[Path], rules: LineRules, tally: Tally
) -> bool:
    """Until all is delivered; False when Ctrl-C ended it early."""
    try:
        finished = await until_interrupted(_produce(producer, topic, files, rules, tally))
    except BadLine as bad:
        # Those before it are good, and on their way already.
        await producer.flush()
        await tally.settle()
        raise bad.after(tally.delivered) from bad
    await producer.flush()
    await tally.settle()
    return finished


async def _produce(
    producer: Producer | TransactionalProducer,
    topic: str,
    files: Sequence[Path],
    rules: LineRules,
    tally: Tally,
) -> None:
    progress = _progress(files)
    with progress if progress is not None else nullcontext():
        total = sum(file.stat().st_size for file in files)
        task = progress.add_task(topic, total=total) if progress is not None else None
        async for lines, byte_count in lines_of(files):
            for line in lines:
                key, value = split_line(line, rules)
                delivery = await producer.send(
                    topic, value, key=key, headers=rules.headers, partition=rules.partition
                )
                await tally.add(delivery)
            if progress is not None and task is not None:
                progress.advance(task, byte_count)


def split_line(line: bytes, rules: LineRules) -> tuple[bytes | None, bytes | None]:
    """The key and value that a line says; a line without the separator is refused."""
    key: bytes | None = None
    value: bytes | None = line
    if rules.key_separator is not None:
        key, found, value = line.partition(rules.key_separator)
        if not found:
            text = line[:40].decode(errors="replace")
            raise BadLine(f"a line without the key separator: {text!r}")
    if rules.null_marker is not None:
        key = None if key == rules.null_marker else key
        value = None if value == rules.null_marker else value
    return key, value


def _separator(text: str) -> bytes:
    r"""The separator as typed; \t is a tab, since shells make that hard to type."""
    if not text:
        raise click.BadParameter("it is empty", param_hint="--key-separator")
    return typed_bytes(text.replace("\\t", "\t"))


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r}: expected NAME=VALUE", param_hint="--headers")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{name!r} is not UTF-8", param_hint="--headers") from None
    return name, typed_bytes(value)


def _progress(files: Sequence[Path]) -> Progress | None:
    """A bar where the end is known and somebody looks."""
    console = OutputConsole(stderr=True)
    if not files or not console.is_terminal:
        return None
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
