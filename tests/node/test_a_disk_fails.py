"""One of two disks of a running node fails with I/O errors, while producers write with acks=all."""

from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin, LogDirectory
from penstock.client.network.cluster import Cluster
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from rig.client_cluster import run_with_cluster
from rig.cluster_questions import is_whole, unfenced_brokers, until
from rig.failing_disk import FailingDisk, why_not
from rig.failover.acked_records import judge
from rig.failover.cluster import PenstockSoftware, ReplicatedCluster
from rig.failover.load import LedgerLoad
from rig.failover.questions import all_records, is_in_sync, partition_states
from rig.reassigning import create_on

TOPIC = "orders"
PARTITIONS = 6
OF_TWO = {
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}
RATE = 20.0  # records a second, of each producer


@pytest.fixture
def disks_can_fail() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.usefixtures("disks_can_fail")
def test_leaders_of_a_failed_disk_move_the_node_stays_and_no_acked_record_is_lost(
    tmp_path: Path,
) -> None:
    cluster = ReplicatedCluster(PenstockSoftware(), tmp_path, disks=2)
    whole, failing = cluster.disks(1)
    with FailingDisk(tmp_path / "disk.image", failing) as disk, cluster:
        cluster.start()
        until("the cluster is whole", lambda: is_whole(cluster))
        create_on(cluster.addresses[1], TOPIC, [[1, 2, 3]] * PARTITIONS)
        until("the topic is in sync", lambda: is_in_sync(cluster, TOPIC))
        on_whole, on_failing = stored_in(whole), stored_in(failing)
        assert on_whole and on_failing, "the node has partitions on both disks"
        load = LedgerLoad(cluster.bootstrap, TOPIC, partitions=PARTITIONS, rate=RATE, java=None)
        load.until_more_acked()
        assert leaders(cluster, on_whole | on_failing) == {1}

        disk.fail()
        until("others lead what was on it", lambda: 1 not in leaders(cluster, on_failing))
        load.until_more_acked()
        load.finish()

        assert cluster.nodes[1].running
        assert leaders(cluster, on_whole) == {1}, "what is on the other disk stays where it is"
        assert in_sync(cluster, on_failing) == {2, 3}
        assert in_sync(cluster, on_whole) == {1, 2, 3}
        assert errors_of_disks(cluster) == {whole: None, failing: ErrorCode.KAFKA_STORAGE_ERROR}
        found = all_records(cluster.bootstrap, TOPIC, partitions=PARTITIONS)
        assert judge(load.records, found) == []
        assert load.acked > 0


@pytest.mark.usefixtures("disks_can_fail")
def test_another_broker_leads_what_was_on_a_failed_disk_of_the_only_voter(tmp_path: Path) -> None:
    cluster = ReplicatedCluster(
        PenstockSoftware(), tmp_path, nodes=2, voters=1, disks=2, settings=OF_TWO
    )
    whole, failing = cluster.disks(1)
    with FailingDisk(tmp_path / "disk.image", failing) as disk, cluster:
        cluster.start()
        until("both serve", lambda: unfenced_brokers(cluster.addresses[1]) == {1, 2})
        create_on(cluster.addresses[1], TOPIC, [[1, 2]] * PARTITIONS)
        until("the topic is in sync", lambda: is_in_sync(cluster, TOPIC))
        on_whole, on_failing = stored_in(whole), stored_in(failing)
        assert on_whole and on_failing, "the node has partitions on both disks"
        load = LedgerLoad(cluster.bootstrap, TOPIC, partitions=PARTITIONS, rate=RATE, java=None)
        load.until_more_acked()
        assert leaders(cluster, on_whole | on_failing) == {1}

        disk.fail()
        until("the other leads what was on it", lambda: leaders(cluster, on_failing) == {2})
        load.until_more_acked()
        load.finish()

        assert cluster.nodes[1].running
        assert leaders(cluster, on_whole) == {1}, "what is on the other disk stays where it is"
        assert in_sync(cluster, on_failing) == {2}
        found = all_records(cluster.bootstrap, TOPIC, partitions=PARTITIONS)
        assert judge(load.records, found) == []
        assert load.acked > 0


def stored_in(disk: Path) -> set[int]:
    return {int(one.name.rpartition("-")[2]) for one in disk.glob(f"{TOPIC}-*")}


def leaders(cluster: ReplicatedCluster, partitions: set[int]) -> set[int | None]:
    states = partition_states(cluster.addresses[2], TOPIC)
    return {states[index].leader for index in partitions}


def in_sync(cluster: ReplicatedCluster, partitions: set[int]) -> set[int]:
    states = partition_states(cluster.addresses[2], TOPIC)
    [found] = {states[index].in_sync for index in partitions}
    return set(found)


def errors_of_disks(cluster: ReplicatedCluster) -> dict[Path, ErrorCode | None]:
    """As node 1 itself tells them."""

    async def ask(asked: Cluster) -> list[LogDirectory]:
        await asked.refresh(())
        told = (await Admin(asked).log_directories([NodeId(1)]))[NodeId(1)]
        assert isinstance(told, list), told
        return told

    return {
        Path(one.path): None if one.error is None else one.error.code
        for one in run_with_cluster(cluster.bootstrap, ask)
    }
