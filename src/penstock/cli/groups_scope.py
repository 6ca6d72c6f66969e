"""Which partitions a command is about, and where a group is to read on: as they are typed."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.times import parse_duration_ms, parse_time_ms
from penstock.client.admin.group_reset import Aim, ShiftBy, To, ToAgo, ToEach, ToOffset, ToTime
from penstock.client.network.errors import Refused
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition

Command = TypeVar("Command", bound=Callable[..., Any])


def parse_scope(text: str) -> tuple[str, tuple[int, ...] | None]:
    """A topic, and which of its partitions; None for all. ValueError when it can't be read."""
    topic, colon, indexes = text.partition(":")
    if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", indexes)):
        raise ValueError(text)
    return topic, tuple(int(index) for index in indexes.split(",")) if colon else None


def partitions_in(view: ClusterView, scopes: Iterable[str]) -> list[TopicPartition]:
    """The partitions that scopes name, in order; Refused when one does not exist."""
    found: dict[TopicPartition, None] = {}
    for topic, indexes in map(parse_scope, scopes):
        known = view.topics.get(topic)
        if known is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic, "there is no such topic")
        there = [partition.index for partition in known.partitions]
        for index in there if indexes is None else indexes:
            place = TopicPartition(topic, index)
            if index not in there:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise Refused(code, str(place), "there is no such partition")
            found[place] = None
    return sorted(found)


def read_offsets_file(file: Path) -> dict[TopicPartition, int]:
    """Lines of `topic,partition,offset`, as Kafka's own tool exports them."""
    offsets = {}
    # What is no UTF-8 is no such line either, and is told with its number.
    for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), start=1):
        if not line.strip():
            continue
        found = re.fullmatch(r"\s*\"?([^,\"]+)\"?\s*,\s*(\d+)\s*,\s*(\d+)\s*", line)
        if found is None:
            raise click.UsageError(f"{file}:{number}: expected TOPIC,PARTITION,OFFSET")
        topic, partition, offset = found.groups()
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    if not offsets:
        raise click.UsageError(f"{file}: no line of TOPIC,PARTITION,OFFSET in it")
    return offsets


def scope_option(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    for text in texts:
        try:
            parse_scope(text)
        except ValueError:
            raise click.BadParameter(f"{text!r}: expected TOPIC or TOPIC:0,1") from None
    return texts


topics_option = click.option(
    "--topic",
    "topic_scopes",
    multiple=True,
    callback=scope_option,
    metavar="TOPIC[:0,1]",
    help="A topic, or some of its partitions; repeatable.",
)


def aim_options(command: Command) -> Command:
    """The ways to say where a group is to read on, by the names of Kafka's own tool.

    Each comes as the Aim that was meant, or as None.
    """
    for add_option in (
        click.option(
            "--from-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            callback=_aim_of(lambda file: ToEach(read_offsets_file(file))),
            help="To the offsets in lines of TOPIC,PARTITION,OFFSET.",
        ),
        click.option(
            "--shift-by",
            type=int,
            callback=_aim_of(ShiftBy),
            metavar="N",
            help="So many forward, or back if below 0.",
        ),
        click.option(
            "--by-duration",
            callback=_aim_of(_ago),
            metavar="DURATION",
            help="To what was written so long ago: 1h30m, 2d.",
        ),
        click.option(
            "--to-datetime",
            callback=_aim_of(_time),
            metavar="TIME",
            help="To the first record from then on: 2026-01-31T12:00:00, or @MILLISECONDS.",
        ),
        click.option(
            "--to-offset",
            type=click.IntRange(min=0),
            callback=_aim_of(ToOffset),
            metavar="N",
            help="To an offset.",
        ),
        _flag("--to-current", To.CURRENT, "To where it is, within the log."),
        _flag("--to-latest", To.LATEST, "To the end: skip what there is."),
        _flag("--to-earliest", To.EARLIEST, "To the start: read all again."),
    ):
        command = add_option(command)
    return command


def one_aim(aims: Iterable[Aim | None]) -> Aim:
    given = [aim for aim in aims if aim is not None]
    if len(given) != 1:
        raise click.UsageError(
            "where to? Give one of --to-earliest, --to-latest, --to-current, --to-offset,"
            " --to-datetime, --by-duration, --shift-by, --from-file"
        )
    return given[0]


def _flag(name: str, aim: Aim, text: str) -> Callable[[Command], Command]:
    return click.option(name, is_flag=True, callback=_aim_of(lambda _: aim), help=text)


def _aim_of(meant: Callable[[Any], Aim]) -> Callable[..., Aim | None]:
    """What click parsed as the Aim that it stands for."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Aim | None:
        return None if value is None or value is False else meant(value)

    return callback


def _ago(text: str) -> Aim:
    try:
        return ToAgo(parse_duration_ms(text))
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected a duration such as 1h30m, 2d or PT1H30M"
        ) from None


def _time(text: str) -> Aim:
    try:
        return ToTime(parse_time_ms(text))
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected a time such as 2026-01-31T12:00:00, or @MILLISECONDS"
        ) from None
