"""A cluster grows, moves partitions, shrinks and gets a new disk under load: nothing is lost.

As docs/cluster.md says it, with the `penstock` command and real processes; `bench/operating.py`
does more of it, and measures.
"""

from pathlib import Path

import pytest

from rig.operating.cluster import OperatedCluster
from rig.operating.ordeal import ADDED, REPLACED, SETTINGS, SMALL, OperatingOrdeal

pytestmark = pytest.mark.slow


def test_nothing_acked_is_lost_while_nodes_are_added_drained_removed_and_replaced(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    with OperatedCluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.start()
        report = OperatingOrdeal(cluster, SMALL, told=lines.append).run()
        assert report.faults == [], "\n".join(lines)
        assert report.open == 0
        assert report.acked > 0
        described = cluster.told("cluster", "describe")
        left = [REPLACED, *ADDED]
        assert [one["id"] for one in described["brokers"]] == left
        voters = cluster.told("cluster", "quorum")["voters"]
        assert sorted(one["id"] for one in voters) == left
