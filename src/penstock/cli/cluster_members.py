"""`penstock cluster`: unregister, add-controller, remove-controller, upgrade."""

import asyncio
from pathlib import Path

import click

from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options, parse_settings
from penstock.cli.show import print_json, say
from penstock.cli.storage_format import StorageError, config_option, data_option, directories_of
from penstock.client.admin.admin import Admin
from penstock.client.admin.membership import (
    NewVoter,
    add_voter,
    remove_voter,
    unregister_broker,
    upgrade_features,
)
from penstock.client.admin.quorum import describe_quorum
from penstock.client.admin.quorum_guard import majority_lost
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.log.directory import read_identity
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition, id_bytes, id_text
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import Role, cluster_node
from penstock.node.endpoints import controller_endpoint
from penstock.world.disk import RealDisk
from penstock.world.placeholders import resolved_settings
from penstock.world.ports import Address
from penstock.world.properties import read_properties
from penstock.world.tcp import TcpNetwork

HEARD_MS_MAX = 3_000

controllers_option = click.option(
    "--bootstrap-controller",
    "controllers",
    metavar="HOST:PORT[,...]",
    help="Ask controllers, at their own listeners, instead of brokers.",
)


@click.command()
@click.argument("broker", type=click.IntRange(min=0), metavar="ID")
@click.option("--force", is_flag=True, help="Also one that replicas are still assigned to.")
@cluster_options
def unregister(broker: int, force: bool, bootstrap: str, as_json: bool) -> None:
    """Forget a broker that was stopped and will not come back.

    Move its replicas away first: `penstock partitions reassign --drain ID`.
    """
    node = NodeId(broker)

    async def work(cluster: Cluster) -> int:
        described = {one.node_id: one for one in (await Admin(cluster).describe_cluster()).brokers}
        if node not in described:
            known = ",".join(map(str, sorted(described)))
            raise Refused(
                ErrorCode.BROKER_ID_NOT_REGISTERED, "", f"there is no broker {node}, only {known}"
            )
        if not described[node].fenced:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "",
                f"broker {node} is running: stop it first, or it registers again",
            )
        held = await _held_by(cluster, node)
        if held and not force:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "",
                f"broker {node} has replicas of {_counted(held)}: move them with"
                f" `penstock partitions reassign --drain {node}`, or give --force",
            )
        await unregister_broker(cluster, node)
        return len(held)

    held = with_cluster(bootstrap, work)
    if as_json:
        print_json({"unregistered": node, "partitions_with_replicas": held})
    else:
        say(f"broker {node} is unregistered")


@click.command("add-controller")
@config_option
@data_option
@controllers_option
@cluster_options
def add_controller(
    config: Path | None, data: str, controllers: str | None, bootstrap: str, as_json: bool
) -> None:
    """Add a controller to the voters: one that was formatted with --no-initial-controllers, and
    runs. The command waits for half a minute until it has caught up.

    --config is its server.properties, and the command is given where its directories are.
    """
    if config is None:
        raise click.UsageError("which controller? Give --config, its server.properties")
    voter = _voter_of(config, data)

    async def work(cluster: Cluster) -> None:
        await add_voter(cluster, voter, at_controllers=controllers is not None)

    with_cluster(controllers or bootstrap, work)
    if as_json:
        print_json({"added": voter.node_id, "directory_id": id_text(voter.directory_id)})
    else:
        say(f"controller {voter.node_id} votes, with directory id {id_text(voter.directory_id)}")


@click.command("remove-controller")
@click.argument("controller", type=click.IntRange(min=0), metavar="ID")
@click.option(
    "--directory-id", metavar="ID", help="Only the voter with this directory.  [default: any]"
)
@click.option("--force", is_flag=True, help="Also if most of the others do not live.")
@controllers_option
@cluster_options
def remove_controller(
    controller: int,
    directory_id: str | None,
    force: bool,
    controllers: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Remove a controller from the voters. It need not run; if it does, it observes on.

    Most of the voters that are left must live: without them nothing can be changed any more.
    """
    node = NodeId(controller)
    wanted = None if directory_id is None else _directory_id(directory_id)

    async def work(cluster: Cluster) -> bytes:
        at_controllers = controllers is not None
        quorum = await describe_quorum(cluster, at_controllers=at_controllers)
        voters = {one.node_id: one.directory_id for one in quorum.voters}
        found = voters.get(node)
        if node not in voters:
            known = ",".join(map(str, sorted(voters)))
            raise Refused(
                ErrorCode.VOTER_NOT_FOUND, "", f"controller {node} does not vote, only {known} do"
            )
        if not force:
            await _refuse_lost_majority(cluster, node, at_controllers=at_controllers)
        chosen = wanted or found or bytes(16)  # voters that are fixed have none: the leader says so
        await remove_voter(cluster, node, chosen, at_controllers=at_controllers)
        return chosen

    removed = with_cluster(controllers or bootstrap, work)
    if as_json:
        print_json({"removed": node, "directory_id": id_text(removed)})
    else:
        say(f"controller {node} votes no more, with directory id {id_text(removed)}")


@click.command()
@click.argument("pairs", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.option("--dry-run", is_flag=True, help="Say whether it could be done, and change nothing.")
@cluster_options
def upgrade(pairs: tuple[str, ...], dry_run: bool, bootstrap: str, as_json: bool) -> None:
    """Raise the levels of features: all that are named, or none. It cannot be undone.

    `penstock cluster features` lists them, and the levels that nodes support.
    """
    levels = {}
    for name, text in parse_settings(pairs, option="FEATURE=LEVEL").items():
        if not text.isdecimal():
            raise click.BadParameter(f"{name}={text}: a level is a number", param_hint="LEVEL")
        levels[name] = int(text)

    async def work(cluster: Cluster) -> None:
        await upgrade_features(cluster, levels, validate_only=dry_run)

    with_cluster(bootstrap, work)
    if as_json:
        print_json({"levels": levels, "upgraded": not dry_run})
        return
    for name, level in levels.items():
        say(f"{name} {'could be raised to' if dry_run else 'has'} level {level}")


async def _refuse_lost_majority(cluster: Cluster, node: NodeId, *, at_controllers: bool) -> None:
    """A leader that was just elected has yet to hear of the others: they are given some time."""
    deadline_ms = cluster.clock.monotonic_ms() + HEARD_MS_MAX
    while True:
        quorum = await describe_quorum(cluster, at_controllers=at_controllers)
        lost = majority_lost(quorum, node)
        if lost is None:
            return
        if cluster.clock.monotonic_ms() >= deadline_ms:
            raise lost
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)


async def _held_by(cluster: Cluster, node: NodeId) -> list[TopicPartition]:
    view = await cluster.refresh_all()
    return sorted(
        TopicPartition(name, partition.index)
        for name, topic in view.topics.items()
        for partition in topic.partitions
        if node in partition.replicas
    )


def _counted(places: list[TopicPartition]) -> str:
    count = len(places)
    return str(places[0]) if count == 1 else f"{count} partitions, {places[0]} among them"


def _voter_of(config: Path, data: str) -> NewVoter:
    """What a controller says of itself, by its settings and the directory of its metadata."""
    settings = parse_broker(resolved_settings(read_properties(config)))
    node = cluster_node(settings, settings.node_id)
    if not node.is_controller:
        raise StorageError(f"{config}: node {node.node_id} is no controller: see process.roles")
    directory, _ = directories_of(settings, data)
    identity = read_identity(RealDisk(), directory)
    if identity is None:
        raise StorageError(
            f"{directory} is not formatted: run `penstock storage format --config {config}"
            " --cluster-id ID --no-initial-controllers`, and start the node"
        )
    host_name = TcpNetwork().host_name()
    return NewVoter(
        node_id=node.node_id,
        directory_id=identity.directory_id,
        listeners=[
            controller_endpoint(
                one, bound=Address(host=one.host, port=one.port), host_name=host_name
            )
            for one in node.listeners_of(Role.CONTROLLER)
        ],
    )


def _directory_id(text: str) -> bytes:
    try:
        return id_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--directory-id") from error
