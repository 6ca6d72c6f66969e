"""A log directory fails while its broker goes on: others lead what was in it (KIP-858). So they do
if a single log of it is damaged.
"""

from penstock.metadata.image.topic import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    ReplicaOfDirectory,
    TopicOfDirectory,
)
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.wire.messages.elect_leaders import ElectedTopicPartitions, ElectLeadersRequest
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord
from rig.cluster import Cluster
from rig.replicated_topic import add_topic, partition_of

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
FIRST, SECOND = b"a" * 16, b"b" * 16
UNCLEAN = 1  # election


def with_two_directories(*replicas: NodeId, in_sync_min: int = 2) -> Cluster:
    """Broker ONE has two directories; its replica of `orders` is in the first one."""
    cluster = Cluster(3, min_insync_replicas=str(in_sync_min))
    request = cluster.registration(ONE, incarnation=1)
    request.log_dirs = [FIRST, SECOND]
    cluster.ask(request)
    cluster.unfence(ONE)
    for name, directory in (("orders", FIRST), ("payments", SECOND)):
        add_topic(cluster, name, *replicas)
        topic = cluster.topic(name)
        cluster.follow(
            PartitionChangeRecord(
                topic_id=topic.topic_id,
                partition_id=0,
                directories=[
                    directory if node == ONE else cluster.image.brokers[node].directories[0]
                    for node in replicas
                ],
            )
        )
    return cluster


def beat(cluster: Cluster, *failed: bytes) -> BrokerHeartbeatResponse:
    reply = cluster.ask(
        BrokerHeartbeatRequest(
            broker_id=ONE,
            broker_epoch=cluster.image.brokers[ONE].epoch,
            current_metadata_offset=len(cluster.records) - 1,
            offline_log_dirs=list(failed),
        )
    )
    assert isinstance(reply, BrokerHeartbeatResponse)
    return reply


def test_another_replica_leads_what_was_in_a_directory_that_failed() -> None:
    cluster = with_two_directories(ONE, TWO, THREE)
    before = partition_of(cluster)
    assert before.leader == ONE
    reply = beat(cluster, FIRST)
    assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.elr) == (TWO, (TWO, THREE), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert partition_of(cluster, "payments").leader == ONE
    assert cluster.image.brokers[ONE].directories == (SECOND,)


def test_it_is_decided_once() -> None:
    cluster = with_two_directories(ONE, TWO, THREE)
    beat(cluster, FIRST)
    count = len(cluster.records)
    beat(cluster, FIRST)
    assert len(cluster.records) == count


def test_a_replica_in_a_failed_directory_is_not_eligible() -> None:
    cluster = with_two_directories(TWO, ONE)
    beat(cluster, FIRST)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.elr) == (TWO, (TWO,), ())
    cluster.fence(TWO)
    partition = partition_of(cluster)
    assert (partition.leader, partition.elr, partition.last_known_elr) == (None, (TWO,), (TWO,))


def test_a_replica_in_a_failed_directory_does_not_join_again() -> None:
    cluster = with_two_directories(TWO, ONE, THREE)
    beat(cluster, FIRST)
    count = len(cluster.records)
    assert cluster.try_alter_isr("orders", TWO, ONE, THREE) == ErrorCode.INELIGIBLE_REPLICA
    assert partition_of(cluster).isr == (TWO, THREE)
    assert len(cluster.records) == count
    assert assign(cluster, SECOND) == ErrorCode.NONE  # where it has begun anew
    assert cluster.try_alter_isr("orders", TWO, ONE, THREE) == ErrorCode.NONE
    assert partition_of(cluster).isr == (TWO, ONE, THREE)


def test_a_replica_that_was_eligible_is_so_no_more() -> None:
    cluster = with_two_directories(TWO, ONE)
    cluster.alter_isr("orders", TWO)
    assert partition_of(cluster).elr == (ONE,)
    beat(cluster, FIRST)
    assert partition_of(cluster).elr == ()


def test_a_partition_whose_last_replica_failed_waits_for_the_directory() -> None:
    cluster = with_two_directories(ONE)
    beat(cluster, FIRST)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.last_known_elr) == (None, (), (ONE,))
    for incarnation, directories in ((2, [SECOND]), (3, [FIRST, SECOND])):
        request = cluster.registration(ONE, incarnation=incarnation)
        request.log_dirs = directories
        cluster.ask(request)
        cluster.unfence(ONE)
        leader = partition_of(cluster).leader
        assert leader == (ONE if FIRST in directories else None)


def test_a_broker_that_has_lost_everything_is_left_to_its_end() -> None:
    cluster = with_two_directories(ONE, TWO, THREE)
    count = len(cluster.records)
    beat(cluster, FIRST, SECOND)
    assert len(cluster.records) == count
    assert cluster.image.brokers[ONE].directories == (FIRST, SECOND)


def test_directories_that_the_broker_did_not_register_with_change_nothing() -> None:
    cluster = with_two_directories(ONE, TWO, THREE)
    count = len(cluster.records)
    beat(cluster, b"?" * 16)
    assert len(cluster.records) == count


def assign(cluster: Cluster, directory: bytes, *, topic: str = "orders") -> ErrorCode:
    """Broker ONE tells in which directory its replica is."""
    reply = cluster.ask(
        AssignReplicasToDirsRequest(
            broker_id=ONE,
            broker_epoch=cluster.image.brokers[ONE].epoch,
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicOfDirectory(
                            topic_id=cluster.topic(topic).topic_id,
                            partitions=[ReplicaOfDirectory(partition_index=0)],
                        )
                    ],
                )
            ],
        )
    )
    assert isinstance(reply, AssignReplicasToDirsResponse)
    return ErrorCode(reply.directories[0].topics[0].partitions[0].error_code)


def unassigned(cluster: Cluster, name: str, *replicas: NodeId) -> None:
    """A topic whose replica on broker ONE has just been made, somewhere."""
    add_topic(cluster, name, *replicas)
    directories = [
        UNASSIGNED_DIRECTORY if node == ONE else cluster.image.brokers[node].directories[0]
        for node in replicas
    ]
    cluster.follow(
        PartitionChangeRecord(
            topic_id=cluster.topic(name).topic_id, partition_id=0, directories=directories
        )
    )


def test_a_replica_that_was_made_in_a_directory_which_failed_at_once_leads_no_more() -> None:
    """The metadata did not know where it was when the directory failed."""
    cluster = with_two_directories(ONE, TWO, THREE)
    unassigned(cluster, "bills", ONE, TWO, THREE)
    beat(cluster, FIRST)
    assert partition_of(cluster, "bills").leader == ONE
    assert assign(cluster, FIRST, topic="bills") is ErrorCode.NONE
    after = partition_of(cluster, "bills")
    assert (after.leader, after.isr, after.elr) == (TWO, (TWO, THREE), ())
    assert after.directory(ONE) == FIRST


def test_the_only_replica_of_such_a_partition_waits_for_its_directory() -> None:
    cluster = with_two_directories(ONE)
    unassigned(cluster, "bills", ONE)
    beat(cluster, FIRST)
    assign(cluster, FIRST, topic="bills")
    after = partition_of(cluster, "bills")
    assert (after.leader, after.isr, after.last_known_elr) == (None, (), (ONE,))


def test_a_replica_whose_move_was_cut_off_by_the_end_of_its_directory_leads_no_more() -> None:
    """The metadata have it in the other directory already, where there is only a copy."""
    cluster = with_two_directories(ONE, TWO, THREE)
    assert assign(cluster, SECOND) is ErrorCode.NONE
    beat(cluster, FIRST)
    assert partition_of(cluster).leader == ONE
    assert assign(cluster, FIRST) is ErrorCode.NONE
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.elr) == (TWO, (TWO, THREE), ())
    assert after.directory(ONE) == FIRST


def test_it_does_not_matter_which_of_both_is_told_first() -> None:
    cluster = with_two_directories(ONE, TWO, THREE)
    assign(cluster, SECOND)
    assign(cluster, FIRST)
    beat(cluster, FIRST)
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.elr) == (TWO, (TWO, THREE), ())


def test_a_move_to_another_directory_changes_neither_leader_nor_in_sync_set() -> None:
    cluster = with_two_directories(ONE, TWO, THREE)
    before = partition_of(cluster)
    assert assign(cluster, SECOND) is ErrorCode.NONE
    after = partition_of(cluster)
    assert after.directory(ONE) == SECOND
    assert (after.leader, after.leader_epoch, after.isr) == (
        before.leader,
        before.leader_epoch,
        before.isr,
    )
    beat(cluster, FIRST)
    assert partition_of(cluster).leader == ONE


def test_another_replica_leads_what_its_leader_cannot_open() -> None:
    cluster = with_two_directories(ONE, TWO, THREE)
    before = partition_of(cluster)
    assert assign(cluster, LOST_DIRECTORY) is ErrorCode.NONE
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.elr) == (TWO, (TWO, THREE), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.directory(ONE) == LOST_DIRECTORY
    assert partition_of(cluster, "payments").leader == ONE
    count = len(cluster.records)
    assign(cluster, LOST_DIRECTORY)
    assert len(cluster.records) == count


def test_an_eligible_replica_leads_what_its_leader_cannot_open() -> None:
    cluster = with_two_directories(ONE, TWO)
    cluster.alter_isr("orders", ONE)
    assert partition_of(cluster).elr == (TWO,)
    assign(cluster, LOST_DIRECTORY)
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.elr) == (TWO, (TWO,), ())


def test_a_replica_that_cannot_be_opened_is_not_eligible() -> None:
    cluster = with_two_directories(TWO, ONE)
    cluster.alter_isr("orders", TWO)
    assert partition_of(cluster).elr == (ONE,)
    assign(cluster, LOST_DIRECTORY)
    assert partition_of(cluster).elr == ()


def unopened_by_the_last_in_sync() -> Cluster:
    """The other replica may have lost records when ONE finds that it cannot open its own."""
    cluster = with_two_directories(ONE, TWO, in_sync_min=1)
    cluster.alter_isr("orders", ONE)
    assign(cluster, LOST_DIRECTORY)
    return cluster


def test_an_operator_gives_a_partition_a_leader_whose_last_one_cannot_open_it() -> None:
    cluster = unopened_by_the_last_in_sync()
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.last_known_elr) == (None, (), (ONE,))
    cluster.ask(
        ElectLeadersRequest(
            election_type=UNCLEAN,
            topic_partitions=[ElectedTopicPartitions(topic="orders", partitions=[0])],
        )
    )
    after = partition_of(cluster)
    assert (after.leader, after.isr) == (TWO, (TWO,))


def test_a_last_leader_does_not_lead_again_with_a_log_that_was_made_anew() -> None:
    """The others would throw their records away."""
    cluster = unopened_by_the_last_in_sync()
    request = cluster.registration(ONE, incarnation=2)
    request.log_dirs = [FIRST, SECOND]
    cluster.ask(request)
    cluster.unfence(ONE)
    assert partition_of(cluster).leader is None
    assert assign(cluster, FIRST) is ErrorCode.NONE
    after = partition_of(cluster)
    assert (after.directory(ONE), after.last_known_elr) == (FIRST, ())
    cluster.fence(ONE)
    cluster.unfence(ONE)
    assert partition_of(cluster).leader is None


def test_a_fenced_broker_that_could_lead_again_is_not_assigned_to_another_directory() -> None:
    """It was cut off while a replica moved: nothing is lost, and it leads on from where it led."""
    cluster = with_two_directories(ONE)
    cluster.fence(ONE)
    before = partition_of(cluster)
    assert (before.leader, before.last_known_elr) == (None, (ONE,))
    assert assign(cluster, SECOND) is ErrorCode.INELIGIBLE_REPLICA
    assert partition_of(cluster) == before
    cluster.unfence(ONE)
    assert partition_of(cluster).leader == ONE
    assert assign(cluster, SECOND) is ErrorCode.NONE
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.directory(ONE)) == (ONE, (ONE,), SECOND)
