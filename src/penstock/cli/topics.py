"""`penstock topics`: create, list, describe, alter, delete, apply, offsets, delete-records."""

from pathlib import Path

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options, parse_settings
from penstock.cli.show import listed, print_json, print_table, say
from penstock.cli.topics_offsets import delete_records, is_shown_on_demand, offsets
from penstock.client.admin.admin import BROKERS_DECIDE, Admin, NewTopic, first_refusal
from penstock.client.admin.configs import Change, Resource, alter_configs, describe_configs
from penstock.client.admin.topology import PARTITIONS_MAX, REPLICAS_MAX, read_topology
from penstock.client.admin.topology_apply import apply_topology
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.client.network.routing import TopicView
from penstock.model.configs import Operation, ResourceKind, Source
from penstock.model.error import ErrorCode
from penstock.model.identity import id_text

PARTITIONS = click.IntRange(min=1, max=PARTITIONS_MAX)
REPLICAS = click.IntRange(min=1, max=REPLICAS_MAX)

settings_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A topic setting; repeatable."
)


@click.group(cls=CommandGroup)
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


topics.add_command(offsets)
topics.add_command(delete_records)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--partitions", type=PARTITIONS, help="Default: the broker's.")
@click.option(
    "--replicas", "--replication-factor", "replicas", type=REPLICAS, help="Default: the broker's."
)
@settings_option
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine.")
@cluster_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    assignments: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create topics."""
    settings = parse_settings(assignments, option="--set")
    wanted = [
        NewTopic(
            name=name,
            partitions=partitions or BROKERS_DECIDE,
            replicas=replicas or BROKERS_DECIDE,
            settings=settings,
        )
        for name in names
    ]

    async def work(cluster: Cluster) -> dict[str, bool]:
        results = await Admin(cluster).create_topics(wanted)
        there = {name for name, result in results.items() if if_not_exists and _exists(result)}
        first_refusal(result for name, result in results.items() if name not in there)
        return {name: name not in there for name in results}

    created = with_cluster(bootstrap, work)
    if as_json:
        print_json([{"name": name, "created": new} for name, new in created.items()])
    else:
        for name, new in created.items():
            say(f"created {name}" if new else f"{name} is there already")


@topics.command("list")
@click.option("--internal", is_flag=True, help="Those of the system too.")
@cluster_options
def list_topics(internal: bool, bootstrap: str, as_json: bool) -> None:
    """List topics."""

    async def work(cluster: Cluster) -> list[TopicView]:
        view = await Admin(cluster).topics()
        found = sorted(view.topics.values(), key=lambda topic: topic.name)
        return [topic for topic in found if internal or not is_shown_on_demand(topic)]

    found = with_cluster(bootstrap, work)
    if as_json:
        print_json([_summary(topic) for topic in found])
    else:
        print_table(
            ("topic", "partitions", "replicas", "id"),
            ((t.name, len(t.partitions), _replication(t), id_text(t.topic_id)) for t in found),
        )


@topics.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@cluster_options
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Describe topics: leaders, replicas and settings of their own."""

    async def work(cluster: Cluster) -> list[tuple[TopicView, dict[str, str | None]]]:
        admin = Admin(cluster)
        wanted = names or tuple(sorted((await admin.topics()).topics))
        described = await admin.describe_topics(wanted)
        first_refusal(described.values())
        resources = {name: Resource(ResourceKind.TOPIC, name) for name in wanted}
        configs = await describe_configs(cluster, resources.values())
        first_refusal(configs.values())
        found = []
        for name in wanted:
            topic, entries = described[name], configs[resources[name]]
            assert not isinstance(topic, Refused)
            assert not isinstance(entries, Refused)
            own = {e.name: e.value for e in entries if e.source is Source.TOPIC}
            found.append((topic, own))
        return found

    found = with_cluster(bootstrap, work)
    if as_json:
        print_json(
            [
                _summary(topic) | {"settings": own, "partitions": _rows(topic)}
                for topic, own in found
            ]
        )
        return
    for topic, own in found:
        settings = listed(f"{name}={value}" for name, value in own.items()) or "none"
        say(f"{topic.name}  id {id_text(topic.topic_id)}  settings: {settings}")
        print_table(
            ("partition", "leader", "epoch", "replicas", "in sync"),
            (
                (p.index, p.leader, p.leader_epoch, listed(p.replicas), listed(p.in_sync))
                for p in topic.partitions
            ),
        )


@topics.command()
@click.argument("name")
@click.option("--partitions", type=PARTITIONS, help="Raise their number to this.")
@settings_option
@click.option("--unset", multiple=True, metavar="NAME", help="Back to the broker's; repeatable.")
@cluster_options
def alter(
    name: str,
    partitions: int | None,
    assignments: tuple[str, ...],
    unset: tuple[str, ...],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Add partitions to a topic, or change its settings."""
    settings = parse_settings(assignments, option="--set")
    changes = [
        *(Change(name=n, operation=Operation.SET, value=v) for n, v in settings.items()),
        *(Change(name=n, operation=Operation.DELETE) for n in unset),
    ]
    if partitions is None and not changes:
        raise click.UsageError("nothing to alter: give --partitions, --set or --unset")

    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        first_refusal((await admin.describe_topics((name,))).values())
        if changes:
            resource = Resource(ResourceKind.TOPIC, name)
            first_refusal((await alter_configs(cluster, {resource: changes})).values())
        if partitions is not None:
            first_refusal((await admin.create_partitions({name: partitions})).values())

    with_cluster(bootstrap, work)
    if as_json:
        print_json({"name": name, "altered": True})
    else:
        say(f"altered {name}")


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@cluster_options
def delete(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Delete topics and all their records."""

    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        if len(names) > 1:
            # None is deleted if one of them does not exist. A single one is left to the controller:
            # brokers of Apache Kafka learn of a new topic some moments after it was created.
            first_refusal((await admin.describe_topics(names)).values())
        try:
            first_refusal((await admin.delete_topics(names)).values())
        except Refused as refusal:
            if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise Refused(refusal.code, refusal.about, "there is no such topic") from None

    with_cluster(bootstrap, work)
    if as_json:
        print_json([{"name": name, "deleted": True} for name in names])
    else:
        for name in names:
            say(f"deleted {name}")


@topics.command("apply")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@cluster_options
def apply_file(file: Path, dry_run: bool, bootstrap: str, as_json: bool) -> None:
    """Make the topics be as FILE (TOML or JSON) says.

    \b
    [topics.orders]
    key = "order_id"
    partitions = 6
    guarantee = "exactly-once"
    retention = "7d"
    settings = { "max.message.bytes" = 2097152 }

    Missing topics are created, partitions added, the settings named are set. Nothing is deleted.
    """
    wanted = read_topology(file)

    async def work(cluster: Cluster) -> list[str]:
        return [str(step) for step in await apply_topology(cluster, wanted, dry_run=dry_run)]

    steps = with_cluster(bootstrap, work)
    if as_json:
        print_json({"steps": steps, "done": not dry_run})
        return
    for step in steps or ["nothing to do"]:
        say(step)


def _exists(result: object) -> bool:
    return isinstance(result, Refused) and result.code == ErrorCode.TOPIC_ALREADY_EXISTS


def _replication(topic: TopicView) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


def _summary(topic: TopicView) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": id_text(topic.topic_id),
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replicas": _replication(topic),
    }


def _rows(topic: TopicView) -> list[dict[str, object]]:
    return [
        {
            "partition": p.index,
            "leader": p.leader,
            "leader_epoch": p.leader_epoch,
            "replicas": list(p.replicas),
            "in_sync": list(p.in_sync),
        }
        for p in topic.partitions
    ]
