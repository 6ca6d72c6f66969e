"""What must hold when a cluster has come through: asked once, when all nodes run again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from rig.cluster_questions import ClusterOfProcesses, until
from rig.failover.acked_records import AckedRecords, judge
from rig.failover.questions import (
    all_records,
    eventually_none,
    high_watermarks,
    is_in_sync,
    partition_states,
    until_in_sync,
)
from rig.failover.replica_logs import differences


class ClusterWithData(ClusterOfProcesses, Protocol):
    def data(self, number: int) -> Path:
        """Holds the partitions of a node."""


def faults_at_the_end(
    cluster: ClusterWithData, topic: str, promised: Iterable[AckedRecords], *, partitions: int
) -> list[str]:
    """Records that were acked and are not there once, and replicas that are not equal. A cluster
    that cannot be asked is a fault too.
    """
    faults: list[str] = []
    try:
        until_in_sync(cluster, topic)
        faults += judge(promised, all_records(cluster.bootstrap, topic, partitions=partitions))
        watermarks = high_watermarks(cluster, topic)
        faults += eventually_none(lambda: unequal_replicas(cluster, topic, watermarks))
        until("replicas stay in sync", lambda: is_in_sync(cluster, topic))
    except AssertionError as error:
        faults.append(str(error))
    return faults


def unequal_replicas(cluster: ClusterWithData, topic: str, watermarks: dict[int, int]) -> list[str]:
    states = partition_states(next(iter(cluster.addresses.values())), topic)
    return [
        f"{topic}-{index}: {fault}"
        for index, watermark in watermarks.items()
        for fault in differences(
            {
                f"node {one}": cluster.data(one) / f"{topic}-{index}"
                for one in sorted(states[index].replicas)
            },
            watermark=watermark,
        )
    ]
