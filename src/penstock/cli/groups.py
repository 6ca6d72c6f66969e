"""`penstock groups`: list, describe, reset-offsets, delete-offsets, delete."""

from collections.abc import Sequence

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.groups_scope import aim_options, one_aim, partitions_in, topics_option
from penstock.cli.groups_show import (
    GroupReport,
    listed_value,
    report_value,
    scopes,
    show_report,
    step_value,
)
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.client.admin.admin import first_refusal
from penstock.client.admin.group_lag import group_lag
from penstock.client.admin.group_reset import Aim, Step, ToEach, carry_out, plan_reset
from penstock.client.admin.groups import (
    GroupKind,
    ListedGroup,
    delete_groups,
    describe_groups,
    list_groups,
)
from penstock.client.consume.group_offsets import committed_offsets, delete_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.model.identity import TopicPartition

KINDS = click.Choice([kind.value for kind in GroupKind if kind is not GroupKind.UNKNOWN])


@click.group(cls=CommandGroup)
def groups() -> None:
    """List, describe, reset and delete consumer groups."""


@groups.command("list")
@click.option("--state", "states", multiple=True, help="Only those in this state; repeatable.")
@click.option("--type", "kinds", multiple=True, type=KINDS, help="Only such; repeatable.")
@cluster_options
def list_command(
    states: tuple[str, ...], kinds: tuple[str, ...], bootstrap: str, as_json: bool
) -> None:
    """List groups."""

    async def work(cluster: Cluster) -> list[ListedGroup]:
        return await list_groups(cluster, states=states, kinds=[GroupKind(kind) for kind in kinds])

    found = with_cluster(bootstrap, work)
    if as_json:
        print_json([listed_value(group) for group in found])
    else:
        print_table(
            ("group", "state", "type", "protocol"),
            ((g.group_id, g.state, g.kind.value, g.protocol_type or "-") for g in found),
        )


@groups.command()
@click.argument("names", nargs=-1, metavar="[GROUP...]")
@cluster_options
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Describe groups: state, members, what each reads, and how far it is behind.

    Behind is the age of the first record that the group has not read.
    """

    async def work(cluster: Cluster) -> list[GroupReport]:
        coordinators = Coordinators(cluster)
        wanted = names or [group.group_id for group in await _consumer_groups(cluster)]
        described = await describe_groups(coordinators, wanted)
        reports = []
        for name in wanted:
            group = described[name]
            if isinstance(group, Refused):
                raise group
            assigned = [place for member in group.members for place in member.assigned]
            lags = await group_lag(cluster, coordinators, name, also=assigned)
            reports.append(GroupReport(group=group, lags=lags))
        return reports

    reports = with_cluster(bootstrap, work)
    if as_json:
        print_json([report_value(report) for report in reports])
        return
    for report in reports:
        show_report(report)


@groups.command("reset-offsets")
@click.argument("group")
@topics_option
@click.option("--all-topics", is_flag=True, help="All that the group has committed.")
@aim_options
@click.option("--execute", is_flag=True, help="Do it; otherwise it is only shown.")
@cluster_options
def reset_offsets(
    group: str,
    topic_scopes: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    bootstrap: str,
    as_json: bool,
    **aims: Aim | None,
) -> None:
    """Set where GROUP reads on. Shows old and new offsets; with --execute they are committed.

    The group must have no members. One that does not exist yet is made.
    """
    aim = one_aim(aims.values())
    if sum((bool(topic_scopes), all_topics, isinstance(aim, ToEach))) != 1:
        raise click.UsageError("which partitions? Give --topic, --all-topics or --from-file")

    async def work(cluster: Cluster) -> list[Step]:
        coordinators = Coordinators(cluster)
        view = await cluster.refresh_all()
        if isinstance(aim, ToEach):
            partitions = partitions_in(view, (f"{t}:{p}" for t, p in aim.offsets))
        elif all_topics:
            committed = await committed_offsets(coordinators, group)
            # Offsets outlive deleted topics for a while. A partition without a leader is not
            # deleted: to leave it out would reset a part of the group only.
            partitions = sorted(p for p in committed if view.partition(p) is not None)
        else:
            partitions = partitions_in(view, topic_scopes)
        steps = await plan_reset(cluster, coordinators, group, partitions, aim)
        if execute and steps:
            await carry_out(coordinators, group, steps)
        return steps

    steps = with_cluster(bootstrap, work)
    if as_json:
        print_json(
            {"group": group, "done": execute, "offsets": [step_value(step) for step in steps]}
        )
        return
    print_table(
        ("topic", "partition", "old", "new"),
        ((s.partition.topic, s.partition.partition, s.old, s.new) for s in steps),
    )
    say(f"reset {group}" if execute else "nothing was changed: add --execute to do it", err=True)


@groups.command("delete-offsets")
@click.argument("group")
@topics_option
@cluster_options
def delete_offsets_command(
    group: str, topic_scopes: tuple[str, ...], bootstrap: str, as_json: bool
) -> None:
    """Delete what GROUP has committed of some topics or partitions. The group itself stays.

    No member may be subscribed to these topics.
    """
    if not topic_scopes:
        raise click.UsageError("which partitions? Give --topic")
    places = _delete_offsets((group,), topic_scopes, bootstrap)
    if as_json:
        print_json({"group": group, "partitions": [list(place) for place in places]})
    else:
        say(f"deleted offsets of {group}: {scopes(places)}")


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@topics_option
@cluster_options
def delete(
    names: tuple[str, ...], topic_scopes: tuple[str, ...], bootstrap: str, as_json: bool
) -> None:
    """Delete groups without members, with all that they committed.

    With --topic the groups stay, and only the offsets of these partitions go.
    """

    async def work(cluster: Cluster) -> None:
        coordinators = Coordinators(cluster)
        first_refusal((await describe_groups(coordinators, names)).values())
        first_refusal((await delete_groups(coordinators, names)).values())

    places: list[TopicPartition] = []
    if topic_scopes:
        places = _delete_offsets(names, topic_scopes, bootstrap)
    else:
        with_cluster(bootstrap, work)
    if as_json:
        print_json(
            [
                {"group": name, "deleted": True, "partitions": [list(place) for place in places]}
                for name in names
            ]
        )
    else:
        for name in names:
            say(f"deleted {name}" if not places else f"deleted offsets of {name}")


def _delete_offsets(
    names: Sequence[str], topic_scopes: tuple[str, ...], bootstrap: str
) -> list[TopicPartition]:
    """Of which partitions they were."""

    async def work(cluster: Cluster) -> list[TopicPartition]:
        coordinators = Coordinators(cluster)
        first_refusal((await describe_groups(coordinators, names)).values())
        places = partitions_in(await cluster.refresh_all(), topic_scopes)
        for name in names:
            first_refusal((await delete_offsets(coordinators, name, places)).values())
        return places

    return with_cluster(bootstrap, work)


async def _consumer_groups(cluster: Cluster) -> list[ListedGroup]:
    kinds = (GroupKind.CLASSIC, GroupKind.CONSUMER)
    return [group for group in await list_groups(cluster) if group.kind in kinds]
