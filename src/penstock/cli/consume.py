"""`penstock consume`: records of a topic, to its present end or as they come."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import click

from penstock.cli.connect import with_cluster
from penstock.cli.consume_group import GroupReading, print_group
from penstock.cli.consume_tail import TAIL_MAX, read_tail
from penstock.cli.options import record_options
from penstock.cli.record_format import RecordFormat, key_format, line_format, parse_format
from penstock.cli.record_lines import Printer
from penstock.cli.times import parse_time_ms
from penstock.cli.typed_text import ANY_BYTES
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.isolation import Isolation
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, TimedOut
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

RECORDS_AT_ONCE = 2_000
WAIT_MS = 1_000
PATIENCE_MS = 15_000  # a new leader is found sooner than that, where there is one to be found


class End(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class FromOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class FromTime:
    timestamp_ms: int


Start = End | FromOffset | FromTime


def parse_start(text: str) -> Start:
    """earliest, latest, an offset, or a time: ISO 8601, or @ and milliseconds since 1970.

    A time without a zone is UTC. ValueError when the text is none of these.
    """
    if text in ("earliest", "latest"):
        return End(text)
    if re.fullmatch(r"\d+", text):
        return FromOffset(int(text))
    return FromTime(parse_time_ms(text))


def start_option(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> Start | None:
    try:
        return None if text is None else parse_start(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r}: expected earliest, latest, an offset, a time such as"
            " 2026-01-31T12:00:00, or @MILLISECONDS"
        ) from error


def format_option(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> RecordFormat | None:
    try:
        return None if text is None else parse_format(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.argument("topic")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Repeatable; default: all.",
)
@click.option(
    "--from",
    "start",
    callback=start_option,
    metavar="earliest|latest|OFFSET|TIME",
    help="Where to begin.  [default: earliest; with --follow: latest]",
)
@click.option("--max", "count_max", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option(
    "--tail",
    type=click.IntRange(min=1, max=TAIL_MAX),
    metavar="N",
    help="Begin with the last N records of all partitions together, by timestamp.",
)
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option(
    "-f",
    "--format",
    "record_format",
    type=ANY_BYTES,
    callback=format_option,
    metavar="FORMAT",
    help="Print each record by a format; see above.",
)
@click.option(
    "--key-separator",
    type=ANY_BYTES,
    metavar="TEXT",
    help="Print the key too, and this after it.",
)
@click.option("--key-only", is_flag=True, help="Print the key instead of the value.")
@click.option("--group", help="Read as a member of this group, and commit what was printed.")
@click.option("--commit/--no-commit", default=True, help="With --group: whether to commit.")
@click.option(
    "--raw", is_flag=True, help="Print control characters as they are, on a terminal too."
)
@click.option("--committed", is_flag=True, help="Leave out open and aborted transactions.")
@record_options
def consume(
    topic: str,
    partitions: tuple[int, ...],
    start: Start | None,
    count_max: int | None,
    tail: int | None,
    follow: bool,
    record_format: RecordFormat | None,
    key_separator: str | None,
    key_only: bool,
    group: str | None,
    commit: bool,
    raw: bool,
    committed: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Print the records of TOPIC: values, or with --json an object a line.

    \b
    A format has directives as kcat's; it ends no line by itself:
      %t topic      %k key     %K its length, -1 for null
      %p partition  %s value   %S its length, -1 for null
      %o offset     %h headers, as NAME=VALUE,...
      %T timestamp in milliseconds since 1970
      %% a percent sign        \\n \\r \\t \\\\ as usual

    On a terminal, control characters are escaped; into a file or a pipe, values go as they are.

    With --group, reading goes on where the group has got to, shared with its other members; --from
    earliest or latest says where to begin what it has never read.
    """
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    rules = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(isolation=isolation))
    begin = start or (End.LATEST if follow else End.EARLIEST)
    printer = Printer(
        out=sys.stdout.buffer,
        format=_chosen_format(as_json, record_format, key_separator, key_only),
        raw=raw or not sys.stdout.isatty(),
    )
    if tail is not None and start is not None:
        raise click.UsageError("give --tail or --from, not both")
    if group is not None:
        if tail is not None:
            raise click.UsageError("--tail does not go with --group")
        _consume_in_group(
            GroupReading(
                group=group,
                topic=topic,
                follow=follow,
                commit=commit,
                count_max=count_max,
                reading=rules,
            ),
            start,
            partitions,
            printer,
            bootstrap,
        )
        return

    async def work(cluster: Cluster) -> None:
        view = await cluster.need((topic,))
        there = range(len(view.topics[topic].partitions))
        chosen = [TopicPartition(topic, index) for index in partitions or there]
        async with Consumer(cluster, rules=rules) as consumer:
            await consumer.assign(chosen)
            if tail is not None:
                left = await _print_tail(consumer, chosen, tail, count_max, printer)
                if follow and left != 0:
                    await _print_all(consumer, None, left, printer)
                return
            ends = None if follow else await consumer.end_offsets(chosen)
            await _begin(consumer, chosen, begin)
            await _print_all(consumer, ends, count_max, printer)

    with_cluster(bootstrap, work)


def _chosen_format(
    as_json: bool, given: RecordFormat | None, key_separator: str | None, key_only: bool
) -> RecordFormat | None:
    """None for JSON."""
    if sum((as_json, given is not None, key_separator is not None, key_only)) > 1:
        raise click.UsageError("give one of --json, --format, --key-separator and --key-only")
    if given is not None or as_json:
        return given
    if key_only:
        return key_format()
    return line_format(
        key_separator=None if key_separator is None else key_separator.replace("\\t", "\t")
    )


def _consume_in_group(
    reading: GroupReading,
    start: Start | None,
    partitions: tuple[int, ...],
    printer: Printer,
    bootstrap: str,
) -> None:
    if partitions:
        raise click.UsageError("--partition does not go with --group: the group assigns them")
    if isinstance(start, FromOffset | FromTime):
        raise click.UsageError(
            "with --group, --from is earliest or latest; see `penstock groups reset-offsets`"
        )
    reset = Reset.LATEST if start is End.LATEST else Reset.EARLIEST
    reading = replace(reading, reading=replace(reading.reading, reset=reset))
    with_cluster(bootstrap, lambda cluster: print_group(cluster, reading, printer))


async def _begin(consumer: Consumer, chosen: Sequence[TopicPartition], begin: Start) -> None:
    match begin:
        case End.EARLIEST:
            consumer.seek_to_beginning()
        case End.LATEST:
            consumer.seek_to_end()
        case FromOffset(offset):
            ends = await consumer.end_offsets(chosen)
            for one in chosen:
                if offset > ends[one]:
                    raise Refused(
                        ErrorCode.OFFSET_OUT_OF_RANGE, str(one), f"it ends at offset {ends[one]}"
                    )
                consumer.seek(one, offset)
        case FromTime(timestamp_ms):
            ends = await consumer.end_offsets(chosen)
            found = await consumer.offsets_for_times(dict.fromkeys(chosen, timestamp_ms))
            for one in chosen:
                offset_found = found[one].offset
                consumer.seek(one, ends[one] if offset_found is None else offset_found)


async def _print_tail(
    consumer: Consumer,
    chosen: Sequence[TopicPartition],
    tail: int,
    count_max: int | None,
    printer: Printer,
) -> int | None:
    """Prints the last records and stands behind them; how many more may be printed."""
    ends = await consumer.end_offsets(chosen)
    records = (await read_tail(consumer, tail, ends))[:count_max]
    for record in records:
        printer.print(record)
    printer.flush()
    for place, end in ends.items():
        consumer.seek(place, end)
    consumer.resume(chosen)
    return None if count_max is None else count_max - len(records)


async def _print_all(
    consumer: Consumer,
    ends: dict[TopicPartition, Offset] | None,
    count_max: int | None,
    printer: Printer,
) -> None:
    """Prints until all partitions have reached their `ends`, if any, or `count_max` is reached.
    TimedOut when there is no getting to an end.
    """
    left, idle_ms = count_max, 0
    before: dict[TopicPartition, Offset] = {}
    while left is None or left > 0:
        if ends is not None:
            behind = await _behind(consumer, ends)
            if not behind:
                break
            # Counted by waits, not by the clock: a pager that is not read from holds us up too.
            idle_ms = idle_ms + WAIT_MS if behind == before else 0
            if idle_ms >= PATIENCE_MS:
                place, position = next(iter(behind.items()))
                raise TimedOut(
                    f"{place}: nothing could be read at offset {position} for {PATIENCE_MS} ms,"
                    f" though its end was at {ends[place]}: has it no leader?"
                )
            before = behind
            # A poll must not return for what is written to the others meanwhile.
            consumer.pause([place for place in ends if place not in behind])
        records_max = RECORDS_AT_ONCE if left is None else min(left, RECORDS_AT_ONCE)
        for record in await consumer.poll(wait_ms=WAIT_MS, records_max=records_max):
            if ends is not None and record.offset >= ends[_place(record)]:
                continue  # it came after we began
            printer.print(record)
            if left is not None:
                left -= 1
        printer.flush()


async def _behind(
    consumer: Consumer, ends: dict[TopicPartition, Offset]
) -> dict[TopicPartition, Offset]:
    """The partitions that are not read to their ends, and how far they are."""
    positions = {place: await consumer.position(place) for place in ends}
    return {place: offset for place, offset in positions.items() if offset < ends[place]}


def _place(record: ConsumedRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
