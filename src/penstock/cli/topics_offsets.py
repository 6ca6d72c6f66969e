"""`penstock topics offsets` and `delete-records`: where partitions begin and end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from penstock.cli.connect import with_cluster
from penstock.cli.groups_scope import partitions_in, scope_option
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.cli.times import parse_time_ms
from penstock.client.admin.admin import Admin, first_refusal
from penstock.client.consume.offsets import ListedOffset, When, list_offsets, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.client.network.routing import TopicView
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.model.topic_name import is_of_the_system

LATEST = "latest"
TIME_EXAMPLES = "a time such as 2026-01-31T12:00:00, or @MILLISECONDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    partition: TopicPartition
    earliest: Offset
    latest: Offset
    at_time: ListedOffset | None  # None: no time was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    partition: TopicPartition
    old: Offset  # the earliest offset now
    new: Offset  # and then


@dataclass(frozen=True, slots=True)
class AtTime:
    timestamp_ms: int


Before = Offset | AtTime | None  # None: the end of the log


def time_option(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_time_ms(text)
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected {TIME_EXAMPLES}") from None


def before_option(context: click.Context, parameter: click.Parameter, text: str) -> Before:
    if text == LATEST:
        return None
    if text.isascii() and text.isdigit():
        return Offset(int(text))
    try:
        return AtTime(parse_time_ms(text))
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected an offset, {LATEST}, {TIME_EXAMPLES}"
        ) from None


@click.command()
@click.argument("scopes", nargs=-1, metavar="[TOPIC[:0,1]...]", callback=scope_option)
@click.option(
    "--time",
    "timestamp_ms",
    callback=time_option,
    metavar="TIME",
    help="Also the first record from then on: 2026-01-31T12:00:00, or @MILLISECONDS.",
)
@click.option("--internal", is_flag=True, help="Without a TOPIC: those of the system too.")
@cluster_options
def offsets(
    scopes: tuple[str, ...],
    timestamp_ms: int | None,
    internal: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show where partitions begin and end, of all topics or of some.

    Earliest is the first offset that can be read, latest the one that the next record gets.
    """

    async def work(cluster: Cluster) -> list[PartitionOffsets]:
        view = await cluster.refresh_all()
        shown = [
            name
            for name, topic in sorted(view.topics.items())
            if internal or not is_shown_on_demand(topic)
        ]
        return await _offsets(cluster, partitions_in(view, scopes or shown), timestamp_ms)

    found = with_cluster(bootstrap, work)
    if as_json:
        print_json([_offsets_value(one) for one in found])
        return
    columns = ("topic", "partition", "earliest", "latest")
    if timestamp_ms is None:
        print_table(columns, ((*one.partition, one.earliest, one.latest) for one in found))
    else:
        print_table((*columns, "at time", "its timestamp"), map(_row_at_time, found))


def is_shown_on_demand(topic: TopicView) -> bool:
    """Whether it is one of the system, to the broker or to us."""
    return topic.internal or is_of_the_system(topic.name)


@click.command("delete-records")
@click.argument("scopes", nargs=-1, required=True, metavar="TOPIC[:0,1]...", callback=scope_option)
@click.option(
    "--before",
    required=True,
    callback=before_option,
    metavar=f"OFFSET|TIME|{LATEST}",
    help="Delete the records before it.",
)
@click.option("--execute", is_flag=True, help="Do it; otherwise it is only shown.")
@cluster_options
def delete_records(
    scopes: tuple[str, ...], before: Before, execute: bool, bootstrap: str, as_json: bool
) -> None:
    """Delete the oldest records of partitions. Shows what would go; with --execute it does.

    Offsets stay as they are: the partitions only begin later. What is deleted can't be had back.
    """

    async def work(cluster: Cluster) -> list[Deletion]:
        places = partitions_in(await cluster.refresh_all(), scopes)
        timestamp_ms = before.timestamp_ms if isinstance(before, AtTime) else None
        planned = plan(await _offsets(cluster, places, timestamp_ms), before)
        if not execute:
            return planned
        left = await Admin(cluster).delete_records(
            {one.partition: one.new for one in planned if one.new > one.old}
        )
        first_refusal(map(_explained, left.values()))
        return planned

    planned = with_cluster(bootstrap, work)
    if as_json:
        print_json({"done": execute, "partitions": [_deletion_value(one) for one in planned]})
        return
    print_table(
        ("topic", "partition", "earliest", "new earliest", "offsets deleted"),
        ((*one.partition, one.old, one.new, one.new - one.old) for one in planned),
    )
    say(
        "deleted the records" if execute else "nothing was changed: add --execute to do it",
        err=True,
    )


def plan(found: Sequence[PartitionOffsets], before: Before) -> list[Deletion]:
    """Where each partition is to begin; Refused when one has no such offset yet."""
    planned = []
    for one in found:
        wanted = one.latest if before is None or isinstance(before, AtTime) else before
        if one.at_time is not None and one.at_time.offset is not None:
            wanted = one.at_time.offset  # above the latest, if its record has come since
        elif wanted > one.latest:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                str(one.partition),
                f"it ends at offset {one.latest}",
            )
        new = max(wanted, one.earliest)
        planned.append(Deletion(partition=one.partition, old=one.earliest, new=new))
    return planned


async def _offsets(
    cluster: Cluster, places: Sequence[TopicPartition], timestamp_ms: int | None
) -> list[PartitionOffsets]:
    earliest = await offsets_of(cluster, places, When.EARLIEST)
    # Before those by time: where no record is as young as that, all before the latest are older. Of
    # records that have come since, nothing is known.
    latest = await offsets_of(cluster, places, When.LATEST)
    at_time: Mapping[TopicPartition, ListedOffset | Refused] = {}
    if timestamp_ms is not None:
        at_time = await list_offsets(cluster, dict.fromkeys(places, timestamp_ms))
    found = []
    for place in places:
        listed = at_time.get(place)
        if isinstance(listed, Refused):
            raise listed
        found.append(
            PartitionOffsets(
                partition=place, earliest=earliest[place], latest=latest[place], at_time=listed
            )
        )
    return found


def _explained(result: object) -> object:
    """Brokers send a code alone."""
    if isinstance(result, Refused) and result.code == ErrorCode.POLICY_VIOLATION:
        reason = "its cleanup.policy is compact without delete, so records can't be deleted"
        return Refused(result.code, result.about, reason)
    return result


def _row_at_time(one: PartitionOffsets) -> tuple[object, ...]:
    assert one.at_time is not None
    return (
        *one.partition,
        one.earliest,
        one.latest,
        one.at_time.offset,
        one.at_time.timestamp_ms,
    )


def _offsets_value(one: PartitionOffsets) -> dict[str, object]:
    value: dict[str, object] = {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "earliest": one.earliest,
        "latest": one.latest,
    }
    if one.at_time is not None:
        value["at_time"] = one.at_time.offset
        value["at_time_timestamp_ms"] = one.at_time.timestamp_ms
    return value


def _deletion_value(one: Deletion) -> dict[str, object]:
    topic, partition = one.partition
    return {"topic": topic, "partition": partition, "old": one.old, "new": one.new}
