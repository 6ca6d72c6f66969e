"""A new cluster begins with what formatting has left in its directories."""

import asyncio
from pathlib import Path

import pytest

from penstock.metadata.records import UnreadableMetadata
from penstock.model.configs import ResourceKind
from penstock.node.bootstrap import read_bootstrap
from penstock.world.disk import RealDisk
from rig.node_cluster import NodeCluster, node_cluster


def test_the_default_of_min_insync_replicas_is_that_of_the_formatted_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node_cluster(tmp_path, 3, min_insync_replicas="1") as cluster:
            await cluster.until(
                lambda image: image.config(ResourceKind.BROKER, "") == {"min.insync.replicas": "1"}
            )

    asyncio.run(scenario())


def test_a_damaged_file_keeps_the_node_from_starting(tmp_path: Path) -> None:
    NodeCluster(tmp_path, 3)
    file = tmp_path / "node-1" / "bootstrap.checkpoint"
    data = file.read_bytes()
    file.write_bytes(data[:70] + bytes((data[70] ^ 1,)) + data[71:])
    with pytest.raises(UnreadableMetadata, match=r"bootstrap\.checkpoint cannot be used"):
        read_bootstrap(RealDisk(), str(file.parent))


def test_a_directory_that_nobody_formatted_has_none(tmp_path: Path) -> None:
    assert read_bootstrap(RealDisk(), str(tmp_path)) is None
