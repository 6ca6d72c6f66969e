"""`penstock storage format`: make the directories of a node its own."""

from collections.abc import Mapping
from pathlib import Path

import click

from penstock.broker.partitions.log_directories import normal
from penstock.cli.options import json_option
from penstock.cli.show import print_json, say
from penstock.cli.typed_text import ANY_BYTES
from penstock.client.network.client_security import BadSecurity
from penstock.client.network.client_settings import resolved
from penstock.log.checkpoint import DirectoryIdentity
from penstock.model.error import PenstockError
from penstock.model.identity import id_bytes, id_text, random_id
from penstock.model.settings.broker import BrokerSettings, parse_broker
from penstock.model.settings.cluster_node import ClusterNode, cluster_node
from penstock.model.settings.listener import DirectoryVoter, directory_voters
from penstock.node.config import log_directories
from penstock.node.directory_owners import cluster_of, owners_of
from penstock.node.first_users import BadUser, parse_user
from penstock.node.formatting import (
    FormatRequest,
    plan_format,
    refuse_unmarked_log,
    replaced_disk,
    standalone_voter,
    write_format,
)
from penstock.wire.messages.metadata_records.user_scram_credential import UserScramCredentialRecord
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.placeholders import resolved_settings
from penstock.world.properties import read_properties
from penstock.world.tcp import TcpNetwork

data_option = click.option(
    "--data",
    type=ANY_BYTES,
    default="./penstock-data",
    show_default=True,
    metavar="DIR",
    help="As for serve.",
)
config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The server.properties of the node.",
)
WAYS_TO_BEGIN = "--standalone, --initial-controllers and --no-initial-controllers"


class StorageError(PenstockError):
    """A directory that is not what was asked for."""


@click.command("format")
@data_option
@config_option
@click.option(
    "--node-id",
    type=click.IntRange(min=0),
    metavar="ID",
    help="The node that it is for, without --config.  [default: 1]",
)
@click.option(
    "--cluster-id",
    metavar="ID",
    help="The same for all nodes of a cluster; for a single node a new one by default.",
)
@click.option("--ignore-formatted", is_flag=True, help="One that is formatted already is fine.")
@click.option(
    "--standalone", is_flag=True, help="The node is the only voter, and others can be added."
)
@click.option(
    "--no-initial-controllers",
    is_flag=True,
    help="The node does not vote, or is added to the voters of a running cluster.",
)
@click.option(
    "--initial-controllers",
    metavar="VOTERS",
    help="The voters of a new cluster, as ID@HOST:PORT:DIRECTORY-ID,...",
)
@click.option(
    "--add-scram",
    "users",
    multiple=True,
    metavar="MECHANISM=[name=NAME,password=PASSWORD]",
    help="A user of the new cluster, as kafka-storage takes it; ${env:NAME} stands for a variable.",
)
@json_option
def format_storage(
    data: str,
    config: Path | None,
    node_id: int | None,
    cluster_id: str | None,
    ignore_formatted: bool,
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    users: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make directories a node's own. `serve` does this by itself for a node that is alone.

    The nodes of a cluster are formatted one by one, with the same --cluster-id. Voters in
    controller.quorum.voters are fixed; without that setting, one of --standalone,
    --initial-controllers and --no-initial-controllers says how a controller begins.
    """
    disk, entropy = RealDisk(), RealEntropy()
    if config is not None and node_id is not None:
        raise StorageError("--node-id: the node's id is that of --config")
    alone = {"node.id": str(1 if node_id is None else node_id)}
    settings = parse_broker(alone if config is None else resolved_settings(read_properties(config)))
    node = cluster_node(settings, settings.node_id)
    refuse_way_to_begin(node, [standalone, no_initial_controllers, initial_controllers is not None])
    voters: tuple[DirectoryVoter, ...] = ()
    if initial_controllers is not None:
        voters = _voters(initial_controllers)
    elif standalone:
        host_name = TcpNetwork().host_name()
        voters = (standalone_voter(node, host_name=host_name, random_bytes=entropy.random_bytes),)
    metadata_directory, log_dirs = directories_of(settings, data)
    owners = owners_of(disk, dict.fromkeys((metadata_directory, *log_dirs)))
    if owners.get(metadata_directory) is None:
        refuse_unmarked_log(disk, metadata_directory)
    request = FormatRequest(
        node=node,
        cluster_id=_cluster_id(cluster_id, node, owners, entropy),
        log_directories=log_dirs,
        metadata_directory=metadata_directory,
        voters=voters,
        ignore_formatted=ignore_formatted,
        min_insync_replicas=settings.given.get("min.insync.replicas"),
        users=_users(users, entropy),
    )
    planned = plan_format(
        request, owners, random_bytes=entropy.random_bytes, now_ms=RealClock().now_ms()
    )
    for directory in planned:
        write_format(disk, directory)
    _say(request, owners, {one.path: one.identity for one in planned}, as_json=as_json)


def directories_of(settings: BrokerSettings, data: str) -> tuple[str, tuple[str, ...]]:
    """The directory of a node's metadata, and those of its partitions."""
    found = tuple(
        map(normal, log_directories(settings, data_directory=data, node_id=settings.node_id))
    )
    metadata = settings.metadata_log_dir
    return found[0] if metadata is None else normal(metadata), found


def identity_fields(path: str, identity: DirectoryIdentity) -> dict[str, object]:
    return {
        "path": path,
        "cluster_id": identity.cluster_id,
        "node_id": identity.node_id,
        "directory_id": id_text(identity.directory_id),
    }


def refuse_way_to_begin(node: ClusterNode, chosen: list[bool]) -> None:
    """Whether the choice among the three ways to begin fits the node's settings."""
    if sum(chosen) > 1:
        raise StorageError(f"only one of {WAYS_TO_BEGIN} can be used")
    if not any(chosen):
        if node.has_dynamic_voters and node.is_controller:
            raise StorageError(
                "controller.quorum.voters is not set on this controller:"
                f" one of {WAYS_TO_BEGIN} is needed"
            )
        return
    if node.quorum.static_voters:
        raise StorageError(
            "controller.quorum.voters names fixed voters: remove it and set"
            f" controller.quorum.bootstrap.servers, or use none of {WAYS_TO_BEGIN}"
        )
    if not node.has_dynamic_voters:
        raise StorageError(
            f"{WAYS_TO_BEGIN} need the --config of a node with process.roles and"
            " controller.quorum.bootstrap.servers"
        )


def _say(
    request: FormatRequest,
    owners: Mapping[str, DirectoryIdentity | None],
    made: Mapping[str, DirectoryIdentity],
    *,
    as_json: bool,
) -> None:
    identities = {path: owner for path, owner in {**owners, **made}.items() if owner is not None}
    node_id = request.node.node_id
    if as_json:
        described = [identity_fields(path, identity) for path, identity in identities.items()]
        print_json({**described[0], "directories": described})
    else:
        for path in identities:
            how = "formatted" if path in made else "formatted already:"
            say(f"{how} {path} for node {node_id} of cluster {request.cluster_id}")
    if request.makes_a_voter and request.metadata_directory in made:
        say(
            f"node {node_id} is a voter of a new cluster. In a cluster that has run before,"
            f" do not start it: {replaced_disk(request.node)}",
            err=True,
        )


def _cluster_id(
    asked: str | None,
    node: ClusterNode,
    owners: Mapping[str, DirectoryIdentity | None],
    entropy: RealEntropy,
) -> str:
    """The cluster to format for: as asked, else that of the node's other directories, else a new
    one for a node that is alone.
    """
    if asked is not None:
        try:
            id_bytes(asked)
        except ValueError as error:
            raise StorageError(f"--cluster-id: {error}") from error
        return asked
    found = cluster_of(owners, node_id=node.node_id)
    if found is not None:
        return found
    if not node.is_only_voter:
        raise StorageError(
            "--cluster-id is needed, the same for all nodes of the cluster;"
            " `penstock storage random-uuid` makes one"
        )
    return id_text(random_id(entropy.random_bytes))


def _users(texts: tuple[str, ...], entropy: RealEntropy) -> tuple[UserScramCredentialRecord, ...]:
    try:
        found = tuple(
            parse_user(resolved(text), random_bytes=entropy.random_bytes) for text in texts
        )
    except (BadUser, BadSecurity) as error:
        raise StorageError(f"--add-scram: {error}") from error
    if len({(user.name, user.mechanism) for user in found}) < len(found):
        raise StorageError("--add-scram: a user is named twice with one mechanism")
    return found


def _voters(text: str) -> tuple[DirectoryVoter, ...]:
    try:
        return directory_voters(text)
    except ValueError as error:
        raise StorageError(f"--initial-controllers: {error}") from error
