"""`penstock transactions`: list, describe, hanging, abort, recover."""

import time

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.groups_scope import partitions_in, topics_option
from penstock.cli.options import cluster_options, not_empty
from penstock.cli.show import print_json, say
from penstock.cli.times import parse_duration_ms
from penstock.cli.transactions_show import (
    described_value,
    hanging_value,
    listed_value,
    show_described,
    show_hanging,
    show_listed,
)
from penstock.cli.transactions_sinks import abort_sink, decision_topic_option, recover
from penstock.client.admin.admin import first_refusal
from penstock.client.admin.hanging_transactions import Suspect, abort_hanging, suspects
from penstock.client.admin.transaction_listing import (
    OPEN_STATES,
    ListedTransaction,
    TransactionDescription,
    Wanted,
    abort_transaction,
    describe_transactions,
    list_transactions,
)
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.wire.primitive import STRING_BYTES_MAX

# What Kafka allows a transaction at most, unless its brokers are set otherwise.
LONG = "15m"
INT64_MAX = 2**63 - 1


def _duration(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        duration_ms = None if text is None else parse_duration_ms(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected a duration such as 90s, 1h30m or 2d"
        ) from None
    if duration_ms is not None and duration_ms > INT64_MAX:
        raise click.BadParameter(f"{text!r} is longer than brokers can count")
    return duration_ms


def _ids(
    context: click.Context, parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Such as a transactional id can be."""
    for name in names:
        size_bytes = len(name.encode())
        if not 0 < size_bytes <= STRING_BYTES_MAX:
            raise click.BadParameter(
                f"a transactional id has 1 to {STRING_BYTES_MAX} bytes, not {size_bytes}"
            )
    return names


@click.group(cls=CommandGroup)
def transactions() -> None:
    """See transactions, find those that hang, and abort them."""


transactions.add_command(recover)


@transactions.command("list")
@click.option("--state", "states", multiple=True, help="Only those in this state; repeatable.")
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=click.IntRange(min=0, max=INT64_MAX),
    help="Only of this producer; repeatable.",
)
@click.option(
    "--older-than",
    "older_than_ms",
    callback=_duration,
    metavar="DURATION",
    help="Only those that began so long ago: 90s, 1h30m, 2d.",
)
@click.option(
    "--pattern",
    callback=not_empty,
    metavar="REGEX",
    help="Only ids that match as a whole, by RE2.",
)
@cluster_options
def list_command(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    older_than_ms: int | None,
    pattern: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """List transactional ids, and what state each is in."""
    wanted = Wanted(
        states=states, producer_ids=producer_ids, older_than_ms=older_than_ms, pattern=pattern
    )

    async def work(cluster: Cluster) -> list[ListedTransaction]:
        return await list_transactions(cluster, wanted)

    found = with_cluster(bootstrap, work)
    if as_json:
        print_json([listed_value(one) for one in found])
    else:
        show_listed(found)


@transactions.command()
@click.argument("names", nargs=-1, metavar="[ID...]", callback=_ids)
@cluster_options
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Describe transactions: state, producer, since when, time-out, partitions.

    Without an ID, all that are open.
    """

    async def work(cluster: Cluster) -> list[TransactionDescription]:
        wanted = names or await _open_ids(cluster)
        coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
        found = []
        for one in (await describe_transactions(coordinators, wanted)).values():
            if isinstance(one, Refused):
                raise one
            found.append(one)
        return found

    found = with_cluster(bootstrap, work)
    now_ms = _now_ms()
    if as_json:
        print_json([described_value(one, now_ms=now_ms) for one in found])
    else:
        show_described(found, now_ms=now_ms)


@transactions.command()
@topics_option
@click.option(
    "--older-than",
    "older_than_ms",
    default=LONG,
    show_default=True,
    callback=_duration,
    metavar="DURATION",
    help="Also those that a coordinator has had open for so long.",
)
@cluster_options
def hanging(
    topic_scopes: tuple[str, ...], older_than_ms: int, bootstrap: str, as_json: bool
) -> None:
    """Find transactions that hold readers back: those that nobody is going to end in a partition,
    and those that have been open for long.

    Looks into all topics, or those given.
    """

    async def work(cluster: Cluster) -> list[Suspect]:
        return await _suspects(cluster, topic_scopes)

    now_ms = _now_ms()
    found = [
        one
        for one in with_cluster(bootstrap, work)
        if one.hangs or now_ms - one.open_since_ms() > older_than_ms
    ]
    if as_json:
        print_json([hanging_value(one, now_ms=now_ms) for one in found])
    else:
        show_hanging(found, now_ms=now_ms)


@transactions.command()
@click.argument("names", nargs=-1, metavar="[ID...]", callback=_ids)
@topics_option
@click.option(
    "--start-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="Where the one that hangs in the partition of --topic begins.",
)
@click.option(
    "--sink",
    callback=not_empty,
    metavar="NAME",
    help="All of a sink of Spark, whose query is given up.",
)
@decision_topic_option
@cluster_options
def abort(
    names: tuple[str, ...],
    topic_scopes: tuple[str, ...],
    start_offset: int | None,
    sink: str | None,
    decision_topic: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Abort open transactions by their ID; their producers are fenced.

    One that hangs in a partition, as `penstock transactions hanging` shows it, is aborted with
    --topic TOPIC:PARTITION --start-offset N.

    With --sink, what the sink has decided is committed and the rest aborted; a query that still
    writes to it can't go on.
    """
    if sink is not None and not names and not topic_scopes and start_offset is None:
        abort_sink(decision_topic, sink, bootstrap, as_json=as_json)
        return
    if (
        sink is not None
        or bool(names) == bool(topic_scopes)
        or bool(topic_scopes) != (start_offset is not None)
    ):
        raise click.UsageError(
            "abort what? Give IDs, or --topic TOPIC:PARTITION with --start-offset, or --sink"
        )

    async def work(cluster: Cluster) -> list[dict[str, object]]:
        if names:
            coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
            first_refusal((await describe_transactions(coordinators, names)).values())
            for name in names:
                await abort_transaction(coordinators, name)
            return [{"transactional_id": name, "aborted": True} for name in names]
        place = await _abort_at(cluster, topic_scopes, start_offset)
        return [
            {
                "topic": place.topic,
                "partition": place.partition,
                "start_offset": start_offset,
                "aborted": True,
            }
        ]

    done = with_cluster(bootstrap, work)
    if as_json:
        print_json(done)
        return
    for one in done:
        what = one.get("transactional_id") or f"{one['topic']}-{one['partition']} at {start_offset}"
        say(f"aborted {what}")


async def _abort_at(
    cluster: Cluster, topic_scopes: tuple[str, ...], start_offset: int | None
) -> TopicPartition:
    """Only what hangs: by hand, a coordinator's transaction would end in one partition alone."""
    places = partitions_in(await cluster.refresh_all(), topic_scopes)
    if len(places) != 1:
        raise click.UsageError("--topic must name one partition: TOPIC:PARTITION")
    [place] = places
    found = [
        one
        for one in await _suspects(cluster, topic_scopes)
        if one.open.start_offset == start_offset
    ]
    if not found:
        message = f"no transaction that begins at {start_offset} is open here"
        raise Refused(ErrorCode.INVALID_TXN_STATE, str(place), message)
    [suspect] = found
    if not suspect.hangs:
        assert suspect.known is not None
        message = (
            f"its coordinator looks after it: abort {suspect.known.transactional_id!r} by that id"
        )
        raise Refused(ErrorCode.INVALID_TXN_STATE, str(place), message)
    await abort_hanging(cluster, suspect.open)
    return place


async def _suspects(cluster: Cluster, topic_scopes: tuple[str, ...]) -> list[Suspect]:
    view = await cluster.refresh_all()
    partitions = partitions_in(view, topic_scopes or sorted(view.topics))
    coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
    return await suspects(cluster, coordinators, partitions)


async def _open_ids(cluster: Cluster) -> list[str]:
    listed = await list_transactions(cluster, Wanted(states=OPEN_STATES))
    return [one.transactional_id for one in listed]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
