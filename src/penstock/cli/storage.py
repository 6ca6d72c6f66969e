"""`penstock storage`: format the directories of a node, or look into them."""

import os.path
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.options import json_option
from penstock.cli.show import print_json, print_table, say
from penstock.cli.storage_format import (
    StorageError,
    config_option,
    data_option,
    directories_of,
    format_storage,
    identity_fields,
)
from penstock.log import layout
from penstock.log.checkpoint import DirectoryIdentity, decode_offsets
from penstock.log.creation import topic_id_of
from penstock.log.directory import read_identity
from penstock.log.errors import CorruptCheckpoint
from penstock.model.identity import TopicPartition, id_text, random_id
from penstock.model.settings.broker import parse_broker
from penstock.node.directory_owners import ForeignDirectory, cluster_of
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.errors import DiskError
from penstock.world.placeholders import resolved_settings
from penstock.world.ports import Disk
from penstock.world.properties import read_properties

_PARTITION_FIELDS = (
    "partition",
    "topic_id",
    "segments",
    "size_bytes",
    "recovery_point",
    "start_offset",
)


@click.group(cls=CommandGroup)
def storage() -> None:
    """Format the directories of a node, or look into them."""


storage.add_command(format_storage)


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a new id, for a cluster or a directory."""
    click.echo(id_text(random_id(RealEntropy().random_bytes)))


@storage.command()
@data_option
@config_option
@json_option
def info(data: str, config: Path | None, as_json: bool) -> None:
    """Show whose directories these are and which partitions they hold. The node may run meanwhile.

    With --config those of that node are shown, and what is wrong with them.
    """
    disk = RealDisk()
    problems: list[str] = []
    if config is None:
        owners = _found_below(disk, data)
    else:
        settings = parse_broker(resolved_settings(read_properties(config)))
        metadata_directory, log_dirs = directories_of(settings, data)
        owners = _looked_into(disk, dict.fromkeys((metadata_directory, *log_dirs)), problems)
        try:
            cluster_of(owners, node_id=settings.node_id)
        except ForeignDirectory as error:
            problems.append(str(error))
    described = [
        identity_fields(path, owner)
        | {
            "clean": disk.exists(f"{path}/{layout.CLEAN_SHUTDOWN}"),
            "partitions": _partitions(disk, path),
        }
        for path, owner in owners.items()
        if owner is not None
    ]
    if as_json:
        print_json(described)
    else:
        _show(described)
    if problems:
        raise StorageError("; ".join(problems))


def _found_below(disk: Disk, data: str) -> dict[str, DirectoryIdentity | None]:
    """The directories of nodes in a data directory, or the directory itself."""
    if not disk.is_directory(data):
        raise StorageError(f"{data} is no directory")
    paths = [os.path.join(data, name).rstrip("/") for name in ["", *disk.names(data)]]
    owners = {path: read_identity(disk, path) for path in paths if disk.is_directory(path)}
    if not any(owners.values()):
        raise StorageError(f"{data} holds no formatted directory")
    return owners


def _looked_into(
    disk: Disk, paths: Iterable[str], problems: list[str]
) -> dict[str, DirectoryIdentity | None]:
    """Whose directories these are; what is wrong with some goes to `problems`."""
    owners: dict[str, DirectoryIdentity | None] = {}
    for path in paths:
        try:
            owners[path] = read_identity(disk, path)
        except (CorruptCheckpoint, DiskError) as error:
            problems.append(str(error))
            continue
        if owners[path] is None:
            state = "is not formatted" if disk.is_directory(path) else "is no directory"
            problems.append(f"{path} {state}")
    return owners


def _show(described: Sequence[Mapping[str, object]]) -> None:
    for node in described:
        stopped = "stopped cleanly" if node["clean"] else "running, or not stopped cleanly"
        say(f"{node['path']}: node {node['node_id']} of {node['cluster_id']}, {stopped}")
        partitions = node["partitions"]
        assert isinstance(partitions, list)
        print_table(
            ("partition", "topic id", "segments", "bytes", "synced to", "starts at"),
            ([p[key] for key in _PARTITION_FIELDS] for p in partitions),
        )


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
