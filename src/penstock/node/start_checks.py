"""What a node looks at before it touches anything: its directories must be its own, and whole."""

import os.path
import re

from penstock.broker.partitions.log_directories import LogDirectories, normal
from penstock.log.directory import sign_of_log_directory
from penstock.log.offset_checkpoints import OffsetCheckpoints
from penstock.log.quorum_state import read_quorum_state
from penstock.log.start_file import StartFile
from penstock.model.error import PenstockError
from penstock.model.identity import METADATA_TOPIC, TopicPartition
from penstock.model.settings.cluster_node import ClusterNode
from penstock.node.config import NodeConfig
from penstock.node.directory_owners import (
    ForeignDirectory,
    cluster_of,
    owners_of,
    refuse_unformatted,
)
from penstock.node.formatting import METADATA_LOG, refuse_ignored_voters
from penstock.world.ports import Disk

NODE_DIRECTORY = re.compile(r"node-(\d+)")


class NestedNode(PenstockError):
    """A data directory that is a log directory itself: nodes have theirs below it."""


class LostMetadata(PenstockError):
    """Data of topics that no metadata tells of."""


def refuse_nested_node(disk: Disk, config: NodeConfig) -> None:
    """A node in a directory inside of another node's would be empty, and surprise everyone."""
    path = config.data_directory
    if config.node_directory not in config.log_directories:
        return
    sign = sign_of_log_directory(disk, path)
    if sign is None:
        return
    instead = f"set log.dirs={path}"
    owner = NODE_DIRECTORY.fullmatch(os.path.basename(os.path.abspath(path)))
    if owner is not None:
        number = int(owner[1])
        with_id = "" if number == config.node_id else f" with node.id={number}"
        instead = f"pass {os.path.normpath(os.path.join(path, os.pardir))} instead{with_id}"
    raise NestedNode(
        f"{path} is a log directory itself (it has {sign}), and no node is started inside it: "
        f"{instead}"
    )


def refuse_foreign_directories(disk: Disk, config: NodeConfig) -> None:
    """Before anything in them is touched, be it only the mark of a clean stop. CorruptCheckpoint
    for a vote that cannot be read.
    """
    metadata_directory = normal(config.metadata_directory)
    owners = owners_of(disk, (metadata_directory, *map(normal, config.log_directories)))
    cluster_of(owners, node_id=config.node_id)
    refuse_unformatted(
        owners,
        node=config.cluster,
        metadata_directory=metadata_directory,
        config_file=config.config_file,
    )
    refuse_ignored_voters(disk, config.cluster, metadata_directory)
    _refuse_lost_log(disk, config.cluster, metadata_directory)
    _refuse_fewer_voters(disk, config.cluster, metadata_directory)


def _refuse_fewer_voters(disk: Disk, node: ClusterNode, metadata_directory: str) -> None:
    """One of several fixed voters whose settings name it alone: it would decide without the others.
    UnreadableQuorumState if the file that names them is torn.
    """
    state = read_quorum_state(disk, f"{metadata_directory}/{METADATA_LOG}")
    if not node.is_only_voter or state is None or state.static_voters is None:
        return
    if set(state.static_voters) - {node.node_id}:
        voters = ", ".join(map(str, sorted(state.static_voters)))
        raise ForeignDirectory(
            f"{metadata_directory} is that of one of the voters {voters}, and these settings would"
            f" make node {node.node_id} the only one: name all of them in controller.quorum.voters,"
            " as on the other nodes"
        )


def _refuse_lost_log(disk: Disk, node: ClusterNode, metadata_directory: str) -> None:
    """A voter of several that has run before, and whose metadata log is gone: it would begin anew
    and vote, as if it had never acknowledged anything.
    """
    path = f"{metadata_directory}/{METADATA_LOG}"
    if not node.is_controller or node.is_only_voter or disk.is_directory(path):
        return
    checkpoints = OffsetCheckpoints(disk=disk, path=metadata_directory, logs={})
    has_run = StartFile(disk=disk, path=metadata_directory).found is not None
    if has_run or TopicPartition(METADATA_TOPIC, 0) in checkpoints.partitions():
        raise LostMetadata(
            f"{path} is gone: this voter has acknowledged what it no longer has. Replace"
            f" {metadata_directory} as that of a lost disk (docs/cluster.md)"
        )


def refuse_logs_beside_nodes(disk: Disk, config: NodeConfig) -> None:
    """A directory with those of nodes in it, as that of `serve --data`, would become one more of
    them, and what they hold would be missing.
    """
    for path in config.log_directories:
        if not disk.is_directory(path) or sign_of_log_directory(disk, path) is not None:
            continue
        for name in sorted(disk.names(path)):
            inside = os.path.join(path, name)
            if NODE_DIRECTORY.fullmatch(name) and sign_of_log_directory(disk, inside) is not None:
                raise NestedNode(
                    f"{path} holds log directories of nodes, and becomes none itself: "
                    f"set log.dirs={inside}, or start with --data {path} and without log.dirs"
                )


def refuse_lost_metadata(directories: LogDirectories) -> None:
    """Partitions without metadata: going on would forget every topic and put its data away."""
    if directories.logs[TopicPartition(METADATA_TOPIC, 0)].end_offset > 0:
        return
    orphans = directories.partitions_claimed()
    if orphans:
        raise LostMetadata(
            f"{directories.metadata.path} holds no metadata, but there are {len(orphans)} "
            f"partitions such as {orphans[0]}: restore its {METADATA_TOPIC}-0 from a copy, "
            f"or move the partitions away to begin anew"
        )
