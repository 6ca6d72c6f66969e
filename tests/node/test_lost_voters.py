"""A node whose snapshots are gone does not know its voters any more, and says what that means."""

import asyncio
from pathlib import Path

import pytest

from penstock.node.quorum import VotersUnknown
from rig.node_cluster import NodeCluster


def test_node_whose_snapshots_are_lost_says_so(tmp_path: Path) -> None:
    cluster = NodeCluster(tmp_path, 3)
    metadata = tmp_path / "node-2" / "__cluster_metadata-0"
    for snapshot in metadata.glob("*.checkpoint"):
        snapshot.unlink()
    with pytest.raises(VotersUnknown) as error:
        asyncio.run(cluster.start(2))
    assert f"the snapshots in {metadata} are lost: restore them from a copy" in str(error.value)
