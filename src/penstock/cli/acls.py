"""`penstock acls`: list, add, remove, and grant for the least rights of common work."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options, not_empty
from penstock.cli.show import print_json, print_table, say
from penstock.client.admin.acls import create_acls, delete_acls, describe_acls
from penstock.client.network.cluster import Cluster
from penstock.security.acl import grants
from penstock.security.acl.entry import Acl, InvalidAcl, ResourcePattern, check_acl
from penstock.security.acl.filter import AclFilter
from penstock.security.acl.words import (
    ANY_HOST,
    ANY_NAME,
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.security.principal import InvalidPrincipal, Principal
from penstock.spark.sink.options import DECISION_TOPIC

Command = TypeVar("Command", bound=Callable[..., Any])
COLUMNS = ("PRINCIPAL", "HOST", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN")
# Options that name resources: what a client may do is about these.
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "user": ResourceType.USER,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
}
OPERATIONS = [one.name.lower().replace("_", "-") for one in AclOperation if one > AclOperation.ANY]
NAMED = "A name that ends in * is a prefix."


def _principal(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """`alice` is short for `User:alice`."""
    if text is None:
        return text
    try:
        return str(Principal.parse(text if ":" in text else f"User:{text}"))
    except InvalidPrincipal as error:
        raise click.BadParameter(str(error)) from None


principal_argument = click.argument("principal", callback=_principal)
host_option = click.option(
    "--host", default=ANY_HOST, show_default=True, help="From this address only."
)


def resource_options(command: Command) -> Command:
    options = [
        click.option("--topic", callback=not_empty, metavar="NAME", help=f"A topic. {NAMED}"),
        click.option("--group", callback=not_empty, metavar="NAME", help=f"A group. {NAMED}"),
        click.option(
            "--transactional-id",
            callback=not_empty,
            metavar="NAME",
            help=f"A transactional id. {NAMED}",
        ),
        click.option(
            "--user", callback=not_empty, metavar="NAME", help="A user, for rights on its tokens."
        ),
        click.option(
            "--delegation-token",
            callback=not_empty,
            metavar="ID",
            help="A delegation token, to see it.",
        ),
        click.option("--cluster", is_flag=True, help="The cluster."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=CommandGroup)
def acls() -> None:
    """See, add and remove access control entries (ACLs)."""


@acls.command("list")
@click.option("--principal", callback=_principal, help="Only of this one, such as User:alice.")
@resource_options
@cluster_options
def list_command(
    principal: str | None, bootstrap: str, as_json: bool, cluster: bool, **names: str | None
) -> None:
    """List the entries, or those that apply to one resource."""
    wanted = _filter(principal, cluster, names)

    async def work(cluster: Cluster) -> list[Acl]:
        return await describe_acls(cluster, wanted)

    _show(with_cluster(bootstrap, work), as_json)


@acls.command()
@principal_argument
@click.argument("operation", type=click.Choice(OPERATIONS, case_sensitive=False))
@resource_options
@host_option
@click.option("--deny", is_flag=True, help="Deny it; this beats every entry that allows it.")
@cluster_options
def add(
    principal: str,
    operation: str,
    host: str,
    deny: bool,
    bootstrap: str,
    as_json: bool,
    cluster: bool,
    **names: str | None,
) -> None:
    """Allow or deny PRINCIPAL an OPERATION on one resource."""
    acl = Acl(
        pattern=_pattern(cluster, names),
        principal=principal,
        host=host,
        operation=_operation(operation),
        permission=Permission.DENY if deny else Permission.ALLOW,
    )
    _add(bootstrap, [acl], as_json)


@acls.command()
@click.option("--principal", callback=_principal, help="Only of this one, such as User:alice.")
@click.option(
    "--operation",
    type=click.Choice(OPERATIONS, case_sensitive=False),
    help="Only entries for this operation.",
)
@resource_options
@click.option("--all", "everything", is_flag=True, help="Needed to remove all entries.")
@cluster_options
def remove(
    principal: str | None,
    operation: str | None,
    everything: bool,
    bootstrap: str,
    as_json: bool,
    cluster: bool,
    **names: str | None,
) -> None:
    """Remove the entries that agree in all that is named."""
    has_resource = cluster or _is_any_given(names)
    if not (principal is not None or operation is not None or has_resource or everything):
        raise click.UsageError("name what to remove, or say --all")
    about = _pattern(cluster, names) if has_resource else None
    wanted = AclFilter(
        resource_type=ResourceType.ANY if about is None else about.resource_type,
        name=None if about is None else about.name,
        pattern_type=PatternType.ANY if about is None else about.pattern_type,
        principal=principal,
        operation=AclOperation.ANY if operation is None else _operation(operation),
    )

    async def work(cluster: Cluster) -> list[Acl]:
        return await delete_acls(cluster, wanted)

    _show(with_cluster(bootstrap, work), as_json, what="removed")


@acls.group(cls=CommandGroup)
def grant() -> None:
    """Allow what a kind of work needs, and no more."""


def many(name: str, help_text: str, *, required: bool = False) -> Callable[[Command], Command]:
    return click.option(
        f"--{name}",
        f"{name.replace('-', '_')}s",
        multiple=True,
        required=required,
        callback=not_empty,
        metavar="NAME",
        help=f"{help_text} Repeatable. {NAMED}",
    )


@grant.command()
@principal_argument
@many("topic", "A topic to write to.", required=True)
@many("transactional-id", "A transactional id to use.")
@host_option
@cluster_options
def producer(
    principal: str,
    topics: tuple[str, ...],
    transactional_ids: tuple[str, ...],
    host: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """To produce, idempotently and in transactions."""
    acls = grants.producer(principal, topics, transactional_ids=transactional_ids, host=host)
    _add(bootstrap, acls, as_json)


@grant.command()
@principal_argument
@many("topic", "A topic to read.", required=True)
@many("group", "A group to be a member of.", required=True)
@host_option
@cluster_options
def consumer(
    principal: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    host: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """To consume as a member of a group, and commit."""
    _add(bootstrap, grants.consumer(principal, topics, groups, host=host), as_json)


@grant.command()
@principal_argument
@many("read", "A topic that is a source.")
@many("write", "A topic that is written to.")
@many("group", "A group that shows the lag of a query.")
@many("sink", "The name of an exactly-once sink.")
@click.option(
    "--decision-topic", default=DECISION_TOPIC, show_default=True, help="Where sinks decide."
)
@host_option
@cluster_options
def spark(
    principal: str,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    groups: tuple[str, ...],
    sinks: tuple[str, ...],
    decision_topic: str,
    host: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """To run queries of Spark: source, lag, and exactly-once sink."""
    acls = grants.spark(
        principal,
        reads=reads,
        writes=writes,
        groups=groups,
        sinks=sinks,
        decision_topic=decision_topic,
        host=host,
    )
    if not acls:
        raise click.UsageError("name what the query uses: --read, --write, --group or --sink")
    _add(bootstrap, acls, as_json)


@grant.command()
@principal_argument
@host_option
@cluster_options
def admin(principal: str, host: str, bootstrap: str, as_json: bool) -> None:
    """To operate the cluster: topics, settings, groups, ACLs; not to read or write records."""
    _add(bootstrap, grants.admin(principal, host=host), as_json)


def _add(bootstrap: str, acls: list[Acl], as_json: bool) -> None:
    for acl in acls:
        try:
            check_acl(acl)
        except InvalidAcl as error:
            raise click.UsageError(str(error)) from None

    async def work(cluster: Cluster) -> None:
        await create_acls(cluster, acls)

    with_cluster(bootstrap, work)
    _show(acls, as_json, what="added")


def _filter(principal: str | None, cluster: bool, names: dict[str, str | None]) -> AclFilter:
    if not cluster and not _is_any_given(names):
        return AclFilter(principal=principal)
    about = _pattern(cluster, names)
    is_prefix = about.pattern_type == PatternType.PREFIXED
    return AclFilter(
        resource_type=about.resource_type,
        name=about.name,
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.MATCH,
        principal=principal,
    )


def _is_any_given(names: dict[str, str | None]) -> bool:
    return any(name is not None for name in names.values())


def _pattern(cluster: bool, names: dict[str, str | None]) -> ResourcePattern:
    given = [(kind, name) for kind, name in names.items() if name is not None]
    if len(given) + cluster != 1:
        raise click.UsageError(
            "name one resource: --topic, --group, --transactional-id, --user, --delegation-token"
            " or --cluster"
        )
    if cluster:
        return ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
    [(kind, name)] = given
    if kind == "user" and ":" not in name and name != ANY_NAME:
        name = f"User:{name}"  # these resources are named by whole principals
    return grants.pattern(KINDS[kind], name)


def _operation(word: str) -> AclOperation:
    return AclOperation[word.upper().replace("-", "_")]


def _show(acls: list[Acl], as_json: bool, *, what: str = "") -> None:
    if as_json:
        print_json([_value(acl) for acl in acls])
        return
    if acls:
        print_table(COLUMNS, [list(_value(acl).values()) for acl in acls])
    count = "1 entry" if len(acls) == 1 else f"{len(acls)} entries"
    if what or not acls:
        say(f"{count} {what}".strip())


def _value(acl: Acl) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower(),
        "resource": acl.pattern.resource_type.name.lower(),
        "name": acl.pattern.name,
        "pattern": acl.pattern.pattern_type.name.lower(),
    }
