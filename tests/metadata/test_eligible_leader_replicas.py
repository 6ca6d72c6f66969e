"""Who may lead when in-sync replicas go: eligible leader replicas, last known leaders (KIP-966)."""

from penstock.metadata.image.topic import (
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    LeaderRecovery,
)
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    ReplicaOfDirectory,
    TopicOfDirectory,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.cluster import Cluster
from rig.replicated_topic import partition_of, replicated

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def restart(cluster: Cluster, node_id: NodeId, *, cleanly: bool) -> None:
    """A new process of the broker, which is not unfenced yet."""
    before = cluster.image.brokers[node_id]
    cluster.register(
        node_id,
        incarnation=before.incarnation[1] + 1,
        previous_broker_epoch=before.epoch if cleanly else None,
    )


def come_back(cluster: Cluster, node_id: NodeId, *, cleanly: bool) -> None:
    restart(cluster, node_id, cleanly=cleanly)
    cluster.unfence(node_id)


# Who is eligible


def test_who_leaves_a_set_that_stays_large_enough_is_not_eligible() -> None:
    cluster = replicated(ONE, TWO, THREE)
    cluster.fence(THREE)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((ONE, TWO), ())


def test_who_leaves_a_set_below_the_minimum_is_eligible() -> None:
    cluster = replicated(ONE, TWO, THREE)
    cluster.fence(THREE)
    cluster.fence(TWO)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((ONE,), (TWO,))
    cluster.fence(ONE)
    partition = partition_of(cluster)
    assert (partition.isr, partition.elr, partition.leader) == ((), (ONE, TWO), None)
    assert partition.last_known_elr == (ONE,)


def test_a_process_may_find_out_that_it_has_lost_records_until_it_is_unfenced() -> None:
    cluster = replicated(ONE, TWO, THREE)
    for node_id in (THREE, TWO, ONE):
        cluster.fence(node_id)
    restart(cluster, TWO, cleanly=True)
    assert partition_of(cluster).elr == (ONE, TWO)
    broker = cluster.image.brokers[TWO]
    epoch = cluster.register(TWO, incarnation=broker.incarnation[1], previous_broker_epoch=None)
    assert epoch == broker.epoch
    assert partition_of(cluster).elr == (ONE,)
    cluster.unfence(TWO)
    assert partition_of(cluster).leader is None
    come_back(cluster, ONE, cleanly=True)
    cluster.alter_isr("orders", ONE, TWO)
    cluster.register(TWO, incarnation=broker.incarnation[1], previous_broker_epoch=None)
    assert partition_of(cluster).isr == (ONE, TWO)


def test_the_minimum_is_never_more_than_there_are_replicas() -> None:
    cluster = replicated(ONE, TWO, in_sync_min=3)
    cluster.fence(TWO)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((ONE,), (TWO,))


def test_the_minimum_of_the_topic_goes_before_that_of_the_cluster() -> None:
    cluster = replicated(ONE, TWO, THREE, in_sync_min=1, min_insync_replicas="3")
    cluster.fence(THREE)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((ONE, TWO), (THREE,))


def test_the_minimum_does_not_come_from_the_file_of_a_controller() -> None:
    cluster = replicated(ONE, TWO, THREE, in_sync_min=2)
    cluster.settings = Cluster(0, min_insync_replicas="1").settings
    cluster.fence(THREE)
    cluster.fence(TWO)
    assert partition_of(cluster).elr == (TWO,)


# Who is elected


def test_an_eligible_replica_leads_and_is_the_only_one_in_sync() -> None:
    cluster = replicated(ONE, TWO, THREE)
    for node_id in (THREE, TWO, ONE):
        cluster.fence(node_id)
    cluster.unfence(TWO)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.elr) == (TWO, (TWO,), (ONE,))
    assert (partition.last_known_elr, partition.leader_recovery_state) == ((), 0)


def test_who_is_neither_in_sync_nor_eligible_does_not_lead() -> None:
    cluster = replicated(ONE, TWO, THREE)
    for node_id in (THREE, TWO, ONE):
        cluster.fence(node_id)
    cluster.unfence(THREE)
    assert partition_of(cluster).leader is None
    assert partition_of(cluster).elr == (ONE, TWO)


def test_a_clean_start_keeps_a_replica_eligible() -> None:
    cluster = replicated(ONE, TWO, THREE)
    for node_id in (THREE, TWO, ONE):
        cluster.fence(node_id)
    come_back(cluster, TWO, cleanly=True)
    assert (partition_of(cluster).leader, partition_of(cluster).elr) == (TWO, (ONE,))


def test_an_unclean_start_takes_a_replica_out_of_the_eligible_set_before_it_may_lead() -> None:
    cluster = replicated(ONE, TWO, THREE)
    for node_id in (THREE, TWO, ONE):
        cluster.fence(node_id)
    restart(cluster, TWO, cleanly=False)
    assert partition_of(cluster).elr == (ONE,)
    cluster.unfence(TWO)
    assert partition_of(cluster).leader is None
    cluster.unfence(ONE)
    assert (partition_of(cluster).leader, partition_of(cluster).isr) == (ONE, (ONE,))


def test_an_unclean_start_takes_a_replica_out_of_the_in_sync_set_in_the_same_decision() -> None:
    """The process was restarted before anybody noticed that it had ended."""
    cluster = replicated(ONE, TWO)
    restart(cluster, ONE, cleanly=False)
    partition = partition_of(cluster)
    assert (partition.leader, partition.leader_epoch) == (TWO, 1)
    assert (partition.isr, partition.elr) == ((TWO,), ())


def test_a_clean_start_before_anybody_noticed_is_a_fencing_too() -> None:
    cluster = replicated(ONE, TWO)
    restart(cluster, ONE, cleanly=True)
    partition = partition_of(cluster)
    assert (partition.leader, partition.leader_epoch) == (TWO, 1)
    assert (partition.isr, partition.elr) == ((TWO,), (ONE,))


def test_a_new_process_that_is_elected_again_has_a_new_leader_epoch() -> None:
    cluster = replicated(ONE)
    come_back(cluster, ONE, cleanly=True)
    partition = partition_of(cluster)
    assert (partition.leader, partition.leader_recovery_state) == (ONE, LeaderRecovery.RECOVERED)
    assert partition.leader_epoch > 0


# The last known leader


def test_a_partition_with_one_replica_comes_back_from_an_unclean_start() -> None:
    cluster = replicated(ONE)
    restart(cluster, ONE, cleanly=False)
    partition = partition_of(cluster)
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (), (ONE,))
    cluster.unfence(ONE)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.last_known_elr) == (ONE, (ONE,), ())
    assert partition.leader_recovery_state == LeaderRecovery.RECOVERING


def test_the_last_leader_is_elected_when_nobody_is_eligible_any_more() -> None:
    cluster = replicated(ONE, TWO, THREE)
    for node_id in (THREE, TWO, ONE):
        cluster.fence(node_id)
    for node_id in (THREE, TWO):
        come_back(cluster, node_id, cleanly=False)
    assert partition_of(cluster).leader is None
    come_back(cluster, ONE, cleanly=False)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.elr) == (ONE, (ONE,), ())
    assert partition.leader_recovery_state == LeaderRecovery.RECOVERING


def test_the_last_leader_does_not_lead_while_another_replica_is_eligible() -> None:
    cluster = replicated(ONE, TWO, THREE)
    for node_id in (THREE, TWO, ONE):
        cluster.fence(node_id)
    come_back(cluster, ONE, cleanly=False)
    assert (partition_of(cluster).leader, partition_of(cluster).elr) == (None, (TWO,))
    come_back(cluster, TWO, cleanly=True)
    assert partition_of(cluster).leader == TWO


def test_the_last_leader_does_not_lead_from_another_disk() -> None:
    cluster = replicated(ONE)
    request = cluster.registration(ONE, incarnation=1)
    request.log_dirs = [b"n" * 16]
    cluster.ask(request)
    cluster.unfence(ONE)
    partition = partition_of(cluster)
    assert (partition.leader, partition.last_known_elr) == (None, (ONE,))


def test_the_last_leader_leads_again_when_its_disk_is_back() -> None:
    cluster = replicated(ONE)
    before = cluster.image.brokers[ONE].directories
    request = cluster.registration(ONE, incarnation=1)
    request.log_dirs = [b"n" * 16]
    cluster.ask(request)
    cluster.unfence(ONE)
    request = cluster.registration(ONE, incarnation=2)
    assert request.log_dirs == list(before)
    cluster.ask(request)
    cluster.unfence(ONE)
    assert partition_of(cluster).leader == ONE


def test_a_replica_whose_directory_is_not_known_may_be_in_the_one_that_is_missing() -> None:
    cluster = replicated(TWO)
    topic_id = cluster.topic("orders").topic_id
    request = cluster.registration(ONE, incarnation=1)
    request.log_dirs = [b"a" * 16, b"b" * 16]
    cluster.ask(request)
    cluster.unfence(ONE)
    cluster.follow(
        PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=0,
            replicas=[ONE],
            isr=[ONE],
            leader=ONE,
            directories=[UNASSIGNED_DIRECTORY],
        )
    )
    come_back_with = cluster.registration(ONE, incarnation=2)
    come_back_with.log_dirs = [b"a" * 16, b"b" * 16]
    cluster.ask(come_back_with)
    cluster.unfence(ONE)
    assert partition_of(cluster).leader == ONE, "it has both directories"
    come_back_with = cluster.registration(ONE, incarnation=3)
    come_back_with.log_dirs = [b"a" * 16, b"c" * 16]
    cluster.ask(come_back_with)
    cluster.unfence(ONE)
    assert partition_of(cluster).leader is None
    assert partition_of(cluster).directories == (LOST_DIRECTORY,)


def test_a_broker_that_was_forgotten_is_not_eligible_any_more() -> None:
    cluster = replicated(ONE, TWO)
    cluster.fence(TWO)
    assert partition_of(cluster).elr == (TWO,)
    cluster.ask(UnregisterBrokerRequest(broker_id=TWO))
    assert partition_of(cluster).elr == ()


# Where the replicas of a broker are


def assign(cluster: Cluster, node_id: NodeId, directory: bytes, topic_id: TopicId) -> int:
    reply = cluster.ask(
        AssignReplicasToDirsRequest(
            broker_id=node_id,
            broker_epoch=cluster.image.brokers[node_id].epoch,
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicOfDirectory(
                            topic_id=topic_id, partitions=[ReplicaOfDirectory(partition_index=0)]
                        )
                    ],
                )
            ],
        )
    )
    assert isinstance(reply, AssignReplicasToDirsResponse)
    return reply.directories[0].topics[0].partitions[0].error_code


def test_a_broker_tells_where_its_replica_is() -> None:
    cluster = replicated(ONE, TWO)
    topic_id = cluster.topic("orders").topic_id
    request = cluster.registration(TWO, incarnation=1)
    request.log_dirs = [b"n" * 16]
    cluster.ask(request)
    assert assign(cluster, TWO, b"n" * 16, topic_id) == 0
    assert partition_of(cluster).directory(TWO) == b"n" * 16
    count = len(cluster.records)
    assert assign(cluster, TWO, b"n" * 16, topic_id) == 0
    assert len(cluster.records) == count, "nothing is new"


def test_a_replica_is_not_assigned_where_it_cannot_be() -> None:
    cluster = replicated(ONE, TWO)
    topic_id = cluster.topic("orders").topic_id
    own = cluster.image.brokers[THREE].directories[0]
    assert assign(cluster, THREE, own, topic_id) == 6  # NOT_LEADER_OR_FOLLOWER
    assert assign(cluster, TWO, own, topic_id) == 57  # LOG_DIR_NOT_FOUND
    assert assign(cluster, TWO, own, TopicId(b"?" * 16)) == 100  # UNKNOWN_TOPIC_ID


def test_the_last_leader_does_not_lead_from_another_disk_after_it_has_said_so() -> None:
    cluster = replicated(ONE)
    topic_id = cluster.topic("orders").topic_id
    for incarnation in (1, 2):
        request = cluster.registration(ONE, incarnation=incarnation)
        request.log_dirs = [b"n" * 16]
        cluster.ask(request)
        cluster.unfence(ONE)
        assign(cluster, ONE, b"n" * 16, topic_id)
        assert partition_of(cluster).leader is None
