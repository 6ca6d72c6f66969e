"""A node that does not know its voters any more asks the bootstrap servers who leads."""

import asyncio
from pathlib import Path

from rig.node_cluster import NodeCluster


def test_node_whose_snapshots_are_lost_reads_the_voters_in_the_log(tmp_path: Path) -> None:
    cluster = NodeCluster(tmp_path, 3)
    for snapshot in (tmp_path / "node-2" / "__cluster_metadata-0").glob("*.checkpoint"):
        snapshot.unlink()

    async def scenario() -> None:
        await cluster.start(1, 2, 3)
        try:
            assert set(cluster.inside(2).local.quorum.voters.node_ids) == {1, 2, 3}
        finally:
            for number in (1, 2, 3):
                await cluster.stop(number)

    asyncio.run(scenario())
