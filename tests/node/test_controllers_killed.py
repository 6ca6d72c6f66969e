"""Active controllers that are killed lose nothing that was acknowledged, and nothing is done twice.

Three nodes as processes; AdminClients create, configure and delete topics all the time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.controller_kills import ControllerKills
from rig.served_cluster import ServedCluster

# `bench/controller_kills.py` has more, beside Apache Kafka.
KILLS = 5


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServedCluster]:
    with ServedCluster(tmp_path) as served:
        served.start()
        yield served


def test_acknowledged_changes_outlive_kills_of_the_active_controller_and_are_done_once(
    cluster: ServedCluster,
) -> None:
    kills = ControllerKills(cluster)
    try:
        for _ in range(KILLS):
            kills.kill_once()
    finally:
        report = kills.finish()
    assert report.faults == []
    assert report.repeated == []
    assert report.acked > KILLS
