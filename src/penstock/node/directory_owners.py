"""Whose a node's directories are: what their `meta.properties` say, and what keeps a node out.

Rules, of all directories that are formatted:
 1. They belong to this node.
 2. They belong to one cluster.
 3. No two have the same directory id: one would be a copy of the other.

A node formats a directory by itself if it is its own only voter, or if another of its directories
tells the cluster. Any other node whose metadata directory is not formatted does not start: it may
have voted before its disk was lost, and has forgotten it.
"""

from collections.abc import Iterable, Mapping

from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import read_identity
from penstock.model.error import PenstockError
from penstock.model.identity import RESERVED_IDS, NodeId, id_text
from penstock.model.settings.cluster_node import ClusterNode
from penstock.world.errors import DiskError
from penstock.world.ports import Disk


class ForeignDirectory(PenstockError):
    """A directory that belongs to another node, or is a copy of another directory."""


class NotFormatted(PenstockError):
    """A node that must be formatted by an operator."""


def owners_of(disk: Disk, paths: Iterable[str]) -> dict[str, DirectoryIdentity | None]:
    """The owner of each directory, None where it is not formatted; those that fail are left out.

    Nothing is locked or changed. CorruptCheckpoint for a `meta.properties` that is torn.
    """
    owners: dict[str, DirectoryIdentity | None] = {}
    for path in paths:
        try:
            owners[path] = read_identity(disk, path)
        except DiskError:
            continue
    return owners


def cluster_of(
    owners: Mapping[str, DirectoryIdentity | None],
    *,
    node_id: NodeId,
    cluster_id: str | None = None,
) -> str | None:
    """The cluster that the directories belong to, None if none is formatted; ForeignDirectory by
    the rules above, or if it is not the cluster that was asked for.
    """
    told_by = "" if cluster_id is None else "as asked for"
    paths_by_id: dict[bytes, str] = {}
    for path, owner in owners.items():
        if owner is None:
            continue
        if owner.node_id != node_id:
            raise ForeignDirectory(f"{path} belongs to node {owner.node_id}, not to {node_id}")
        if cluster_id is None:
            cluster_id, told_by = owner.cluster_id, f"as {path} does"
        if owner.cluster_id != cluster_id:
            raise ForeignDirectory(
                f"{path} belongs to cluster {owner.cluster_id}, not to {cluster_id}, {told_by}"
            )
        if int.from_bytes(owner.directory_id) < RESERVED_IDS:
            raise ForeignDirectory(
                f"{path} has the reserved directory id {id_text(owner.directory_id)}:"
                " it was not formatted by a tool"
            )
        other = paths_by_id.setdefault(owner.directory_id, path)
        if other != path:
            raise ForeignDirectory(
                f"{path} and {other} have the same directory id {id_text(owner.directory_id)}:"
                " one is a copy of the other, and only one may be used"
            )
    return cluster_id


def refuse_unformatted(
    owners: Mapping[str, DirectoryIdentity | None],
    *,
    node: ClusterNode,
    metadata_directory: str,
    config_file: str | None = None,
) -> None:
    """NotFormatted for a node that must not format its metadata directory by itself."""
    if node.is_only_voter or owners.get(metadata_directory) is not None:
        return
    file = config_file or "FILE"
    command = f"penstock storage format --cluster-id ID --config {file}"
    if node.has_dynamic_voters and node.is_controller:
        command += " --no-initial-controllers"
    forgotten = (
        "; if this node has voted before, it has forgotten it, and is not to be formatted as the"
        " same voter"
        if node.node_id in node.quorum.static_voters
        else ""
    )
    raise NotFormatted(
        f"{metadata_directory} is not formatted, and node {node.node_id} is not the only voter"
        f" of its cluster: run `{command}`{forgotten}"
    )
