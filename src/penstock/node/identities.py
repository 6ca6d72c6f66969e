"""Whose log directories are: those that nobody has become this node's."""

import logging

from penstock.broker.partitions.log_directories import LogDirectories
from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import write_identity
from penstock.model.identity import id_text, random_id
from penstock.node.config import NodeConfig
from penstock.node.directory_owners import cluster_of
from penstock.world.ports import World

logger = logging.getLogger(__name__)


def identities_of(
    directories: LogDirectories, world: World, config: NodeConfig
) -> list[DirectoryIdentity]:
    """Whose the directories are; empty ones become ours, in a cluster of our own if all are."""
    found = {directory.path: directory.identity for directory in directories}
    cluster_id = cluster_of(found, node_id=config.node_id)
    if cluster_id is None:
        cluster_id = id_text(random_id(world.entropy.random_bytes))
    return [
        identity or _format(path, world, config, cluster_id) for path, identity in found.items()
    ]


def _format(path: str, world: World, config: NodeConfig, cluster_id: str) -> DirectoryIdentity:
    identity = DirectoryIdentity(
        cluster_id=cluster_id,
        node_id=config.node_id,
        directory_id=random_id(world.entropy.random_bytes),
    )
    write_identity(world.disk, path, identity)
    logger.info("formatted directory=%s cluster_id=%s", path, cluster_id)
    return identity
