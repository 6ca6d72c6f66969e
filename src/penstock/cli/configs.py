"""`penstock configs`: describe and alter settings of topics, brokers and groups."""

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options, parse_settings
from penstock.cli.show import print_json, print_table, say
from penstock.client.admin.admin import first_refusal
from penstock.client.admin.configs import Change, Entry, Resource, alter_configs, describe_configs
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.configs import Operation, ResourceKind, Source

topic_option = click.option("--topic", metavar="NAME", help="The settings of a topic.")
broker_option = click.option(
    "--broker", metavar="ID|all", help="The settings of a broker, or of all of them."
)
group_option = click.option("--group", metavar="ID", help="The settings of a consumer group.")


@click.group(cls=CommandGroup)
def configs() -> None:
    """Describe and alter settings of topics, brokers and groups."""


@configs.command()
@topic_option
@broker_option
@group_option
@click.option("--all", "show_all", is_flag=True, help="Defaults too, not only what was set.")
@cluster_options
def describe(
    topic: str | None,
    broker: str | None,
    group: str | None,
    show_all: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show settings, and where each comes from."""
    resource = _resource(topic, broker, group)

    async def work(cluster: Cluster) -> list[Entry]:
        results = await describe_configs(cluster, [resource])
        first_refusal(results.values())
        found = results[resource]
        assert not isinstance(found, Refused)
        return sorted(found, key=lambda entry: entry.name)

    entries = [
        entry
        for entry in with_cluster(bootstrap, work)
        if show_all or entry.source is not Source.DEFAULT
    ]
    if as_json:
        print_json(
            [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": entry.source.name,
                    "read_only": entry.read_only,
                    "sensitive": entry.sensitive,
                }
                for entry in entries
            ]
        )
    else:
        print_table(
            ("setting", "value", "from"),
            (
                (e.name, "(hidden)" if e.sensitive else e.value, e.source.name.lower())
                for e in entries
            ),
            title=str(resource),
        )


@configs.command()
@topic_option
@broker_option
@group_option
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Repeatable.")
@click.option("--unset", multiple=True, metavar="NAME", help="Back to the default; repeatable.")
@cluster_options
def alter(
    topic: str | None,
    broker: str | None,
    group: str | None,
    assignments: tuple[str, ...],
    unset: tuple[str, ...],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Change settings; those not named stay as they are."""
    resource = _resource(topic, broker, group)
    settings = parse_settings(assignments, option="--set")
    changes = [
        *(Change(name=n, operation=Operation.SET, value=v) for n, v in settings.items()),
        *(Change(name=n, operation=Operation.DELETE) for n in unset),
    ]
    if not changes:
        raise click.UsageError("nothing to alter: give --set or --unset")

    async def work(cluster: Cluster) -> None:
        first_refusal((await alter_configs(cluster, {resource: changes})).values())

    with_cluster(bootstrap, work)
    if as_json:
        print_json({"resource": str(resource), "altered": [change.name for change in changes]})
    else:
        say(f"altered {resource}")


def _resource(topic: str | None, broker: str | None, group: str | None) -> Resource:
    if sum(given is not None for given in (topic, broker, group)) != 1:
        raise click.UsageError("give one of --topic, --broker and --group")
    if topic is not None:
        return Resource(ResourceKind.TOPIC, topic)
    if group is not None:
        return Resource(ResourceKind.GROUP, group)
    assert broker is not None
    if broker != "all" and not broker.isdigit():
        raise click.BadParameter(f"{broker!r} is no broker id", param_hint="--broker")
    return Resource(ResourceKind.BROKER, "" if broker == "all" else broker)
