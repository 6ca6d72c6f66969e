"""`penstock storage`: format a data directory, or look into one."""

import os.path

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.options import json_option
from penstock.cli.show import print_json, print_table
from penstock.log import layout
from penstock.log.checkpoint import DirectoryIdentity, decode_offsets
from penstock.log.creation import topic_id_of
from penstock.log.directory import read_identity, write_identity
from penstock.model.error import PenstockError
from penstock.model.identity import NodeId, TopicPartition, id_bytes, id_text
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.ports import Disk

data_option = click.option(
    "--data", default="./penstock-data", show_default=True, metavar="DIR", help="As for serve."
)


class StorageError(PenstockError):
    """A directory that is not what was asked for."""


@click.group(cls=CommandGroup)
def storage() -> None:
    """Format a data directory, or look into one."""


@storage.command("format")
@data_option
@click.option("--node-id", default=1, show_default=True, type=click.IntRange(min=0),
              help="The node that it is for.")  # fmt: skip
@click.option("--cluster-id", metavar="ID", help="Default: a new one.")
@click.option("--ignore-formatted", is_flag=True, help="One that is formatted already is fine.")
@json_option
def format_storage(
    data: str, node_id: int, cluster_id: str | None, ignore_formatted: bool, as_json: bool
) -> None:
    """Make a directory a node's own. `serve` does this by itself where it finds none."""
    disk, entropy = RealDisk(), RealEntropy()
    path = os.path.join(data, f"node-{node_id}")
    found = read_identity(disk, path)
    if found is not None and not ignore_formatted:
        raise StorageError(f"{path} is formatted already, for cluster {found.cluster_id}")
    if found is None:
        found = DirectoryIdentity(
            cluster_id=id_text(entropy.random_bytes(16)) if cluster_id is None else _id(cluster_id),
            node_id=NodeId(node_id),
            directory_id=entropy.random_bytes(16),
        )
        write_identity(disk, path, found)
    if as_json:
        print_json(_identity_fields(path, found))
    else:
        click.echo(f"formatted {path} for node {found.node_id} of cluster {found.cluster_id}")


@storage.command()
@data_option
@json_option
def info(data: str, as_json: bool) -> None:
    """Show whose directory it is and which partitions it holds. The node may run meanwhile."""
    disk = RealDisk()
    if not disk.is_directory(data):
        raise StorageError(f"{data} is no directory")
    nodes = [
        (path, identity)
        for name in ["", *disk.names(data)]
        if disk.is_directory(path := os.path.join(data, name).rstrip("/"))
        and (identity := read_identity(disk, path)) is not None
    ]
    if not nodes:
        raise StorageError(f"{data} holds no formatted directory")
    described = [
        _identity_fields(path, identity)
        | {
            "clean": disk.exists(f"{path}/{layout.CLEAN_SHUTDOWN}"),
            "partitions": _partitions(disk, path),
        }
        for path, identity in nodes
    ]
    if as_json:
        print_json(described)
        return
    for node in described:
        stopped = "stopped cleanly" if node["clean"] else "running, or not stopped cleanly"
        click.echo(f"{node['path']}: node {node['node_id']} of {node['cluster_id']}, {stopped}")
        partitions = node["partitions"]
        assert isinstance(partitions, list)
        print_table(
            ("partition", "topic id", "segments", "bytes", "synced to", "starts at"),
            ([p[key] for key in _PARTITION_FIELDS] for p in partitions),
        )


_PARTITION_FIELDS = (
    "partition",
    "topic_id",
    "segments",
    "size_bytes",
    "recovery_point",
    "start_offset",
)


def _identity_fields(path: str, identity: DirectoryIdentity) -> dict[str, object]:
    return {
        "path": path,
        "cluster_id": identity.cluster_id,
        "node_id": identity.node_id,
        "directory_id": id_text(identity.directory_id),
    }


def _partitions(disk: Disk, path: str) -> list[dict[str, object]]:
    recovery_points = _offsets(disk, f"{path}/{layout.RECOVERY_POINTS}")
    start_offsets = _offsets(disk, f"{path}/{layout.START_OFFSETS}")
    found = []
    for name in disk.names(path):
        partition = layout.parse_partition_directory(name)
        directory = f"{path}/{name}"
        if partition is None or not disk.is_directory(directory):
            continue
        files = disk.names(directory)
        logs = [file for file in files if file.endswith(layout.LOG)]
        topic_id = topic_id_of(disk, directory)
        first = layout.parse_segment_file(logs[0]) if logs else None
        fields: dict[str, object] = {
            "partition": str(partition),
            "topic_id": None if topic_id is None else id_text(topic_id),
            "segments": len(logs),
            "size_bytes": sum(disk.size(f"{directory}/{log}") for log in logs),
            "recovery_point": recovery_points.get(partition),
            "start_offset": start_offsets.get(partition, None if first is None else first[0]),
        }
        found.append(fields)
    return found


def _offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    if not disk.exists(path):
        return {}
    return {**decode_offsets(path, disk.read(path))}


def _id(text: str) -> str:
    try:
        id_bytes(text)
    except ValueError as error:
        raise StorageError(f"--cluster-id: {error}") from error
    return text
