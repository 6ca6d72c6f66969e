"""`penstock consume`: records of a topic, to its present end or as they come."""

import base64
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import click

from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options
from penstock.client.cluster import Cluster
from penstock.client.consumer import Consumer, ConsumerRules
from penstock.client.cursor import Reset
from penstock.client.fetch_request import FetchRules
from penstock.client.fetched import ConsumedRecord
from penstock.client.isolation import Isolation
from penstock.client.trouble import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

RECORDS_AT_ONCE = 2_000
WAIT_MS = 1_000


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
    if re.fullmatch(r"@\d+", text):
        return FromTime(int(text[1:]))
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return FromTime(int(moment.timestamp() * 1000))


def start_option(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> Start | None:
    try:
        return None if text is None else parse_start(text)
    except ValueError as trouble:
        raise click.BadParameter(
            f"{text!r}: expected earliest, latest, an offset, a time such as"
            " 2026-01-31T12:00:00, or @MILLISECONDS"
        ) from trouble


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
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--key-separator", metavar="TEXT", help="Print the key too, and this after it.")
@click.option("--committed", is_flag=True, help="Leave out open and aborted transactions.")
@cluster_options
def consume(
    topic: str,
    partitions: tuple[int, ...],
    start: Start | None,
    count_max: int | None,
    follow: bool,
    key_separator: str | None,
    committed: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Print the records of TOPIC: values, or with --json an object a line."""
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    rules = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(isolation=isolation))
    begin = start or (End.LATEST if follow else End.EARLIEST)
    separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode()

    async def work(cluster: Cluster) -> None:
        view = await cluster.need((topic,))
        there = range(len(view.topics[topic].partitions))
        chosen = [TopicPartition(topic, index) for index in partitions or there]
        async with Consumer(cluster, rules=rules) as consumer:
            await consumer.assign(chosen)
            ends = None if follow else await consumer.end_offsets(chosen)
            await _begin(consumer, chosen, begin)
            await _print_all(consumer, ends, count_max, as_json, separator)

    with_cluster(bootstrap, work)


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


async def _print_all(
    consumer: Consumer,
    ends: dict[TopicPartition, Offset] | None,
    count_max: int | None,
    as_json: bool,
    separator: bytes | None,
) -> None:
    """Prints until all partitions have reached their `ends`, if any, or `count_max` is reached."""
    out = sys.stdout.buffer
    left = count_max
    while left is None or left > 0:
        if ends is not None and await _all_reached(consumer, ends):
            break
        records_max = RECORDS_AT_ONCE if left is None else min(left, RECORDS_AT_ONCE)
        for record in await consumer.poll(wait_ms=WAIT_MS, records_max=records_max):
            if ends is not None and record.offset >= ends[_place(record)]:
                continue  # it came after we began
            out.write(json_line(record) if as_json else text_line(record, separator))
            if left is not None:
                left -= 1
        out.flush()


async def _all_reached(consumer: Consumer, ends: dict[TopicPartition, Offset]) -> bool:
    reached = [await consumer.position(place) >= end for place, end in ends.items()]
    return all(reached)


def _place(record: ConsumedRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def text_line(record: ConsumedRecord, separator: bytes | None) -> bytes:
    """The value as it is, after its key if a separator is given; null is written as nothing."""
    value = record.value or b""
    return value + b"\n" if separator is None else (record.key or b"") + separator + value + b"\n"


def json_line(record: ConsumedRecord) -> bytes:
    """One object; bytes that are no UTF-8 stand in base64 under another name."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_text_field("key", record.key),
        **_text_field("value", record.value),
        "headers": [{"name": n, **_text_field("value", v)} for n, v in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _text_field(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
