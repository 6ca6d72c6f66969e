"""`penstock partitions balance`: measure, plan, show, ask, do."""

import sys
from collections.abc import Sequence

import click

from penstock.cli import status
from penstock.cli.connect import until_interrupted, with_cluster
from penstock.cli.copy_bar import CopyBar
from penstock.cli.options import cluster_options, ignore_room_option
from penstock.cli.partitions_reassign_show import show_ended
from penstock.cli.plan_bar import plan_bar
from penstock.cli.show import listed, print_json, print_table, say
from penstock.cli.times import parse_duration_ms
from penstock.client.admin.balance_plan import (
    LIMIT_DEFAULT,
    REQUEST_PRICE_BYTES,
    BalancePlan,
    Change,
)
from penstock.client.admin.balancing import (
    Execution,
    plan_for,
    refuse_while_moving,
    stop_all,
)
from penstock.client.admin.disk_room import NoRoom, find_no_room
from penstock.client.admin.moving import Followed
from penstock.client.admin.partition_rates import measure_rates
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.model.identity import TopicPartition

THROTTLE_DEFAULT = 50_000_000
AT_ONCE_DEFAULT = 4
LEFT_BEHIND = (
    "what moves goes on, with its throttle: `penstock partitions balance --stop` cancels it"
)


def duration_option(context: click.Context, parameter: click.Parameter, text: str) -> float:
    try:
        return parse_duration_ms(text) / 1000
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected a duration such as 10s or 5m") from None


for_option = click.option(
    "--for",
    "seconds",
    callback=duration_option,
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="How long to measure.",
)


@click.command()
@for_option
@click.option(
    "--limit",
    type=click.FloatRange(min=1, min_open=True),
    default=LIMIT_DEFAULT,
    show_default=True,
    help="No broker shall have more than so many times the mean load.",
)
@click.option(
    "--throttle",
    "rate_bytes",
    type=click.IntRange(min=1),
    default=THROTTLE_DEFAULT,
    show_default=True,
    metavar="BYTES",
    help="Copy at most so many bytes a second, to and from each broker.",
)
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=AT_ONCE_DEFAULT,
    show_default=True,
    metavar="N",
    help="Copy so many partitions in one step.",
)
@ignore_room_option
@click.option("--dry-run", is_flag=True, help="Show the plan, and do nothing.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--stop", is_flag=True, help="Cancel what moves, also for a balance that runs.")
@cluster_options
def balance(
    seconds: float,
    limit: float,
    rate_bytes: int,
    at_once: int,
    ignore_room: bool,
    dry_run: bool,
    yes: bool,
    stop: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Even out the load of brokers: leaders first, then replicas, with few bytes copied.

    The load is what partitions take and give in bytes a second, measured now; each request that
    writes counts as 2,048 bytes more. The plan is shown with its effect before anything is done.
    Ctrl-C cancels the step at hand and ends it.
    """
    if stop:
        _stop(bootstrap, as_json)
        return
    if as_json and not (yes or dry_run):
        raise click.UsageError("with --json nobody can be asked: give --yes or --dry-run")

    async def measure(cluster: Cluster) -> tuple[BalancePlan, NoRoom | None]:
        await refuse_while_moving(cluster)
        say(f"measuring for {seconds:g} s", err=True)
        rates = await measure_rates(cluster, seconds=seconds)
        with plan_bar() as shown:
            plan = await plan_for(cluster.view, rates, limit=limit, shown=shown)
        return plan, await find_no_room(cluster, plan.added_bytes)

    plan, no_room = with_cluster(bootstrap, measure)
    if not as_json:
        _show(plan)
    if no_room is not None and not ignore_room:
        raise no_room
    done: Sequence[TopicPartition] = ()
    whole = True
    if plan.changes and not dry_run:
        if not yes:
            click.confirm("do it?", abort=True, err=True)
        done, whole = _execute(plan, bootstrap, rate_bytes=rate_bytes, at_once=at_once)
    if as_json:
        print_json(_value(plan, done))
    elif plan.changes and not dry_run:
        say(f"{len(done)} of {len(plan.changes)} changes are done", err=True)
    if not whole:
        sys.exit(status.INTERRUPTED)


def _execute(
    plan: BalancePlan, bootstrap: str, *, rate_bytes: int, at_once: int
) -> tuple[Sequence[TopicPartition], bool]:
    copies = {change.partition: change for change in plan.changes if change.added}

    async def work(cluster: Cluster) -> tuple[Sequence[TopicPartition], bool]:
        with CopyBar(description="copied") as bar:

            def shown(found: Sequence[Followed]) -> None:
                moving = {one.partition: one.copied for one in found if one.copied is not None}
                waiting = [place for place in copies if place not in execution.done]
                bar.show(moving, of=copies, complete=len(copies) - len(waiting))

            execution = Execution(
                cluster, plan, rate_bytes=rate_bytes, at_once=at_once, shown=shown
            )
            begun = False
            try:
                await refuse_while_moving(cluster)
                begun = True
                whole = await until_interrupted(execution.run())
            finally:
                if begun:
                    await _clean_up(execution)
        for place in execution.cancelled:
            say(f"cancelled the move of {place}: it is where it was", err=True)
        return execution.done, whole

    return with_cluster(bootstrap, work)


async def _clean_up(execution: Execution) -> None:
    try:
        await execution.clean_up()
    except ClientError:
        say(LEFT_BEHIND, err=True)
        raise


def _stop(bootstrap: str, as_json: bool) -> None:
    stopped = with_cluster(bootstrap, stop_all)
    if as_json:
        print_json(
            {
                "cancelled": [
                    {"topic": topic, "partition": index} for topic, index in stopped.cancelled
                ],
                "throttles_removed": stopped.throttles_removed,
            }
        )
        return
    for place in stopped.cancelled:
        say(f"cancelled the move of {place}")
    show_ended(stopped.throttles_removed)


def _show(plan: BalancePlan) -> None:
    mean = plan.mean
    if not mean:
        say("nothing to balance: nothing was written or read")
        return
    print_table(
        ("broker", "load", "of mean", "requests", "then", "of mean then", "requests then"),
        (
            (
                node,
                round(load),
                f"{load / mean:.2f}",
                round(plan.requests_before[node]),
                round(plan.loads_after[node]),
                f"{plan.loads_after[node] / mean:.2f}",
                round(plan.requests_after[node]),
            )
            for node, load in plan.loads_before.items()
        ),
        title=f"a second: load in bytes, a request as {REQUEST_PRICE_BYTES}; requests that write",
    )
    if not plan.changes:
        say(
            f"nothing to do: no broker is above {plan.limit:g} times the mean"
            if plan.is_balanced
            else f"a broker is above {plan.limit:g} times the mean, and no move helps"
        )
        return
    print_table(
        ("topic", "partition", "from", "to", "leader", "bytes to copy"),
        (
            (
                *change.partition,
                listed(change.before.replicas),
                listed(change.target),
                _leaders(change),
                change.copied_bytes,
            )
            for change in plan.changes
        ),
    )
    copies = sum(change.copied_bytes > 0 for change in plan.changes)
    say(
        f"{len(plan.changes)} changes, {copies} with copies of {plan.copied_bytes} bytes: the"
        f" busiest broker has {max(plan.loads_after.values()) / mean:.2f} times the mean then,"
        f" now {max(plan.loads_before.values()) / mean:.2f}"
    )


def _leaders(change: Change) -> str:
    before = change.before.leader
    return str(before) if before == change.leader else f"{before} to {change.leader}"


def _value(plan: BalancePlan, done: Sequence[TopicPartition]) -> dict[str, object]:
    return {
        "limit": plan.limit,
        "mean": round(plan.mean, 1),
        "balanced": plan.is_balanced,
        "bytes_to_copy": plan.copied_bytes,
        "request_price_bytes": REQUEST_PRICE_BYTES,
        "brokers": [
            {
                "id": node,
                "load": round(load, 1),
                "load_then": round(plan.loads_after[node], 1),
                "requests_per_second": round(plan.requests_before[node], 1),
                "requests_per_second_then": round(plan.requests_after[node], 1),
            }
            for node, load in plan.loads_before.items()
        ],
        "changes": [
            {
                "topic": change.partition.topic,
                "partition": change.partition.partition,
                "replicas": list(change.before.replicas),
                "target": list(change.target),
                "leader": change.before.leader,
                "leader_then": change.leader,
                "load": round(change.before.leader_load, 1),
                "requests_per_second": round(change.before.requests, 1),
                "bytes": change.copied_bytes,
                "done": change.partition in done,
            }
            for change in plan.changes
        ],
    }
