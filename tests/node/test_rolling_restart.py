"""All nodes of a cluster are restarted, one after the other, while clients of every kind work.

`bench/rolling_restart.py` does it more often.
"""

from contextlib import closing
from pathlib import Path

import pytest

from rig.apache_kafka.jars import PeerMissing, fetched_jars
from rig.failover.cluster import PenstockSoftware, ReplicatedCluster
from rig.failover.rolling import SETTINGS, RolledClients, roll

pytestmark = pytest.mark.slow

RATE = 50


def test_no_error_of_a_rolling_restart_reaches_an_application_and_nothing_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    try:
        jars = fetched_jars()
    except PeerMissing:
        jars = None
    with ReplicatedCluster(PenstockSoftware(), tmp_path, settings=SETTINGS) as cluster:
        cluster.start()
        with closing(RolledClients(cluster, tmp_path, jars=jars, rate=RATE)) as clients:
            clients.begin()
            roll(cluster, clients)
            report = clients.finish()
    assert report.errors == []
    assert report.faults == []
