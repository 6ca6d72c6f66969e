"""An operator moves partitions to other brokers, changes its mind, and stops it (KIP-455)."""

import pytest

from penstock.metadata.controller.elections import BalanceLeaders, ElectionType
from penstock.metadata.controller.explained import PartitionChanged, Why
from penstock.metadata.image.topic import UNASSIGNED_DIRECTORY, LeaderRecovery, PartitionImage
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from penstock.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.elect_leaders import ElectedTopicPartitions, ElectLeadersRequest
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from rig.cluster import Cluster
from rig.ghost_replicas import GhostReplicas
from rig.replicated_topic import add_topic, partition_of, replicated

ONE, TWO, THREE, FOUR, FIVE, SIX = map(NodeId, range(1, 7))


def reassign(
    cluster: Cluster, *target: int, may_change_factor: bool = True
) -> ReassignablePartitionResponse:
    return alter(cluster, list(target), may_change_factor=may_change_factor)


def cancel(cluster: Cluster) -> ReassignablePartitionResponse:
    return alter(cluster, None)


def alter(
    cluster: Cluster,
    target: list[int] | None,
    *,
    topic: str = "orders",
    index: int = 0,
    may_change_factor: bool = True,
) -> ReassignablePartitionResponse:
    partition = ReassignablePartition(partition_index=index, replicas=target)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[partition])],
        allow_replication_factor_change=may_change_factor,
    )
    reply = cluster.ask(request)
    assert isinstance(reply, AlterPartitionReassignmentsResponse)
    (result,) = reply.responses[0].partitions
    return result


def ongoing(cluster: Cluster, **topics: list[int]) -> dict[str, list[tuple[object, ...]]]:
    named = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in topics.items()
    ]
    reply = cluster.ask(ListPartitionReassignmentsRequest(topics=named or None))
    assert isinstance(reply, ListPartitionReassignmentsResponse)
    return {
        topic.name: [
            (one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
            for one in topic.partitions
        ]
        for topic in reply.topics
    }


def assigned(partition: PartitionImage) -> tuple[object, ...]:
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def directory(*nodes: NodeId) -> tuple[bytes, ...]:
    return tuple(bytes((node,)) * 16 for node in nodes)


# How one runs


def test_new_replicas_are_added_and_the_old_ones_kept_until_the_target_is_in_sync() -> None:
    cluster = replicated(ONE, TWO, THREE, brokers=6)
    assert reassign(cluster, FOUR, FIVE, SIX).error_code == ErrorCode.NONE
    partition = partition_of(cluster)
    assert assigned(partition) == (
        (FOUR, FIVE, SIX, ONE, TWO, THREE),
        (FOUR, FIVE, SIX),
        (ONE, TWO, THREE),
    )
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((ONE, TWO, THREE), ONE, 0)
    assert partition.directories == directory(*partition.replicas)
    cluster.alter_isr("orders", ONE, TWO, THREE, FOUR, FIVE)
    assert partition_of(cluster).is_reassigned


def test_the_set_that_holds_the_target_completes_it_and_another_replica_leads() -> None:
    cluster = replicated(ONE, TWO, THREE, brokers=6)
    reassign(cluster, FOUR, FIVE, SIX)
    code = cluster.try_alter_isr("orders", *partition_of(cluster).replicas)
    assert code == ErrorCode.NEW_LEADER_ELECTED
    partition = partition_of(cluster)
    assert assigned(partition) == ((FOUR, FIVE, SIX), (), ())
    assert (partition.isr, partition.leader, partition.leader_epoch) == (
        (FOUR, FIVE, SIX),
        FOUR,
        1,
    )
    assert partition.directories == directory(FOUR, FIVE, SIX)


def test_a_leader_that_stays_leads_in_a_new_epoch_when_others_are_dropped() -> None:
    """What a dropped follower had fetched must not count for one that is added later."""
    cluster = replicated(ONE, TWO, THREE, brokers=4)
    reassign(cluster, ONE, TWO, FOUR)
    assert partition_of(cluster).replicas == (ONE, TWO, FOUR, THREE)
    cluster.alter_isr("orders", ONE, TWO, THREE, FOUR)
    partition = partition_of(cluster)
    assert assigned(partition) == ((ONE, TWO, FOUR), (), ())
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((ONE, TWO, FOUR), ONE, 1)


def test_the_old_replicas_need_not_be_in_sync_to_complete_it() -> None:
    cluster = replicated(ONE, TWO, THREE, brokers=5, in_sync_min=1)
    cluster.fence(THREE)
    reassign(cluster, ONE, FOUR, FIVE)
    cluster.alter_isr("orders", ONE, FOUR, FIVE)
    assert assigned(partition_of(cluster)) == ((ONE, FOUR, FIVE), (), ())


def test_more_replicas_are_needed_in_sync_from_a_new_leader_epoch_on() -> None:
    """The leader could learn of the set from the reply, and of the number only later."""
    cluster = replicated(ONE, brokers=3)
    reassign(cluster, ONE, TWO, THREE)
    assert partition_of(cluster).replica_count == 1
    cluster.alter_isr("orders", ONE, TWO)
    assert (partition_of(cluster).replica_count, partition_of(cluster).leader_epoch) == (1, 0)
    cluster.alter_isr("orders", ONE, TWO, THREE)
    partition = partition_of(cluster)
    assert assigned(partition) == ((ONE, TWO, THREE), (), ())
    assert (partition.isr, partition.leader_epoch) == ((ONE, TWO, THREE), 1)
    assert partition.replica_count == 3


def test_a_copy_that_is_not_complete_does_not_make_the_set_too_small() -> None:
    """Else nothing could be written with acks=all while a partition of one replica is moved."""
    cluster = replicated(ONE, brokers=3, in_sync_min=2)
    reassign(cluster, TWO)
    partition = partition_of(cluster)
    assert (partition.replicas, partition.replica_count, partition.elr) == ((TWO, ONE), 1, ())
    cluster.fence(ONE)
    partition = partition_of(cluster)
    assert (partition.isr, partition.elr) == ((), (ONE,))


def test_nobody_is_eligible_any_more_when_fewer_are_needed() -> None:
    cluster = replicated(ONE, TWO, THREE, brokers=4, in_sync_min=3)
    cluster.fence(THREE)
    assert partition_of(cluster).elr == (THREE,)
    reassign(cluster, ONE, FOUR)
    partition = partition_of(cluster)
    assert (partition.replica_count, partition.isr, partition.elr) == (2, (ONE, TWO), ())


def test_fewer_replicas_complete_at_once() -> None:
    cluster = replicated(ONE, TWO, THREE)
    reassign(cluster, TWO, THREE)
    partition = partition_of(cluster)
    assert assigned(partition) == ((TWO, THREE), (), ())
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((TWO, THREE), TWO, 1)


def test_another_order_completes_at_once_and_elects_nobody() -> None:
    cluster = replicated(ONE, TWO, THREE)
    reassign(cluster, THREE, ONE, TWO)
    partition = partition_of(cluster)
    assert assigned(partition) == ((THREE, ONE, TWO), (), ())
    assert partition.directories == directory(THREE, ONE, TWO)
    assert (partition.leader, partition.leader_epoch) == (ONE, 0)
    cluster.ask(BalanceLeaders())
    assert partition_of(cluster).leader == THREE


def test_the_present_replicas_as_target_write_nothing() -> None:
    cluster = replicated(ONE, TWO, THREE)
    count = len(cluster.records)
    assert reassign(cluster, ONE, TWO, THREE).error_code == ErrorCode.NONE
    assert len(cluster.records) == count


def test_a_target_that_is_out_of_sync_is_waited_for() -> None:
    cluster = replicated(ONE, TWO, THREE, in_sync_min=1)
    cluster.fence(THREE)
    reassign(cluster, THREE)
    partition = partition_of(cluster)
    assert assigned(partition) == ((THREE, ONE, TWO), (), (ONE, TWO))
    assert partition.leader == ONE
    cluster.unfence(THREE)
    assert cluster.try_alter_isr("orders", ONE, TWO, THREE) == ErrorCode.NEW_LEADER_ELECTED
    assert assigned(partition_of(cluster)) == ((THREE,), (), ())


def test_it_goes_on_when_an_old_leader_dies() -> None:
    cluster = replicated(ONE, TWO, brokers=4, in_sync_min=1)
    reassign(cluster, THREE, FOUR)
    cluster.alter_isr("orders", ONE, TWO, THREE)
    cluster.fence(ONE)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr) == (THREE, (TWO, THREE))
    assert partition.is_reassigned
    cluster.alter_isr("orders", TWO, THREE, FOUR)
    assert assigned(partition_of(cluster)) == ((THREE, FOUR), (), ())


def test_a_target_that_was_eligible_completes_it_by_its_election() -> None:
    cluster = replicated(ONE, TWO, in_sync_min=2)
    cluster.fence(ONE)
    cluster.fence(TWO)
    reassign(cluster, TWO)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((), (TWO, ONE))
    cluster.unfence(TWO)
    partition = partition_of(cluster)
    assert assigned(partition) == ((TWO,), (), ())
    assert (partition.leader, partition.isr, partition.elr) == (TWO, (TWO,), ())
    assert partition.leader_recovery_state == LeaderRecovery.RECOVERED


def test_a_target_none_of_which_can_lead_now_is_waited_for() -> None:
    cluster = replicated(ONE, TWO, in_sync_min=1)
    for node in (ONE, THREE):  # nobody but the second replica can lead the partition
        cluster.fence(node)
    cluster.beat(TWO, want_shut_down=True)  # and it goes on to lead what nobody else can
    assert partition_of(cluster).isr == (TWO,)
    reassign(cluster, TWO)
    partition = partition_of(cluster)
    assert assigned(partition) == ((TWO, ONE), (), (ONE,))
    assert partition.isr == (TWO,)


def test_a_broker_with_several_directories_chooses_one_for_its_new_replica() -> None:
    cluster = replicated(ONE, brokers=1)
    registration = cluster.registration(TWO)
    registration.log_dirs = [bytes((2,)) * 16, bytes((3,)) * 16]
    cluster.ask(registration)
    reassign(cluster, TWO)
    assert partition_of(cluster).directories == (UNASSIGNED_DIRECTORY, *directory(ONE))


# Another target meanwhile


def test_another_target_goes_on_from_where_it_is() -> None:
    cluster = replicated(ONE, TWO, brokers=5)
    reassign(cluster, THREE, FOUR)
    cluster.alter_isr("orders", ONE, TWO, THREE)
    reassign(cluster, FOUR, FIVE)
    partition = partition_of(cluster)
    assert assigned(partition) == (
        (FOUR, FIVE, ONE, TWO, THREE),
        (THREE, FOUR, FIVE),
        (ONE, TWO, THREE),
    )
    assert partition.isr == (ONE, TWO, THREE)
    code = cluster.try_alter_isr("orders", ONE, TWO, THREE, FOUR, FIVE)
    assert code == ErrorCode.NEW_LEADER_ELECTED
    assert assigned(partition_of(cluster)) == ((FOUR, FIVE), (), ())


def test_what_had_another_target_is_cancelled_to_where_it_began() -> None:
    cluster = replicated(ONE, TWO, brokers=5)
    reassign(cluster, THREE, FOUR)
    cluster.alter_isr("orders", ONE, TWO, THREE)
    reassign(cluster, FOUR, FIVE)
    cancel(cluster)
    partition = partition_of(cluster)
    assert assigned(partition) == ((ONE, TWO), (), ())
    assert partition.isr == (ONE, TWO)


def test_the_first_replicas_as_the_next_target_end_it() -> None:
    cluster = replicated(ONE, TWO, brokers=4)
    reassign(cluster, THREE, FOUR)
    reassign(cluster, ONE, TWO)
    assert assigned(partition_of(cluster)) == ((ONE, TWO), (), ())


# Cancelling


def test_a_cancelled_one_drops_the_new_replicas_in_a_new_leader_epoch() -> None:
    cluster = replicated(ONE, TWO, brokers=4)
    reassign(cluster, THREE, FOUR)
    cluster.alter_isr("orders", ONE, TWO, THREE)
    assert cancel(cluster).error_code == ErrorCode.NONE
    partition = partition_of(cluster)
    assert assigned(partition) == ((ONE, TWO), (), ())
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((ONE, TWO), ONE, 1)
    assert partition.directories == directory(ONE, TWO)


def test_a_new_leader_gives_way_to_an_old_replica() -> None:
    cluster = replicated(ONE, TWO, brokers=4, in_sync_min=1)
    reassign(cluster, THREE, FOUR)
    cluster.alter_isr("orders", ONE, TWO, THREE)
    cluster.ask(BalanceLeaders())
    assert partition_of(cluster).leader == THREE
    cancel(cluster)
    assert (partition_of(cluster).leader, partition_of(cluster).isr) == (ONE, (ONE, TWO))


def test_a_cancel_that_would_lose_records_is_refused() -> None:
    cluster = replicated(ONE, brokers=3, in_sync_min=1)
    reassign(cluster, TWO, THREE)
    cluster.alter_isr("orders", ONE, TWO)
    cluster.fence(ONE)
    count = len(cluster.records)
    refusal = cancel(cluster)
    assert refusal.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal.error_message == (
        "Unable to revert partition assignment for orders:0 because it would require an unclean "
        "leader election."
    )
    assert len(cluster.records) == count


def test_a_cancel_elects_uncleanly_where_the_topic_allows_it() -> None:
    cluster = replicated(ONE, brokers=3, in_sync_min=1, unclean_leader_election_enable="true")
    reassign(cluster, TWO, THREE)
    cluster.alter_isr("orders", ONE, TWO)
    cluster.fence(ONE)
    assert cancel(cluster).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT  # nobody could lead
    cluster.unfence(ONE)
    assert cancel(cluster).error_code == ErrorCode.NONE
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr) == (ONE, (ONE,))
    assert partition.leader_recovery_state == LeaderRecovery.RECOVERING


def test_an_eligible_old_replica_leads_again_after_a_cancel() -> None:
    cluster = replicated(ONE, FOUR, brokers=4, in_sync_min=2)
    reassign(cluster, TWO, THREE)
    cluster.alter_isr("orders", ONE, FOUR, TWO)
    cluster.fence(FOUR)
    cluster.fence(ONE)  # one is in sync, of two: the old replica is eligible
    cluster.unfence(ONE)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((TWO,), (ONE,))
    assert cancel(cluster).error_code == ErrorCode.NONE
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.elr) == (ONE, (ONE,), ())
    assert partition.leader_recovery_state == LeaderRecovery.RECOVERED


def test_a_partition_without_leader_is_cancelled_if_its_last_leader_stays() -> None:
    cluster = replicated(ONE, brokers=2, in_sync_min=1)
    reassign(cluster, TWO)
    cluster.fence(TWO)
    cluster.fence(ONE)
    assert partition_of(cluster).leader is None
    assert cancel(cluster).error_code == ErrorCode.NONE
    assert assigned(partition_of(cluster)) == ((ONE,), (), ())
    cluster.unfence(ONE)
    assert partition_of(cluster).leader == ONE


def test_a_cancel_of_nothing_is_refused() -> None:
    cluster = replicated(ONE, TWO)
    refusal = cancel(cluster)
    assert refusal.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert refusal.error_message == "No partition reassignment is in progress."


# What is refused


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((), "The manual partition assignment includes an empty replica list."),
        (
            (1, 9),
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        ((1, 2, 1), "The manual partition assignment includes the broker 1 more than once."),
    ],
    ids=["empty", "unknown broker", "duplicate"],
)
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...], message: str) -> None:
    cluster = replicated(ONE, TWO)
    count = len(cluster.records)
    refusal = reassign(cluster, *target)
    assert refusal.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal.error_message == message
    assert len(cluster.records) == count


def test_unknown_topics_and_partitions_are_refused() -> None:
    cluster = replicated(ONE, TWO)
    refusal = alter(cluster, [ONE], topic="nothing")
    assert refusal.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal.error_message == "Unable to find a topic named nothing."
    for index in (1, -1):
        refusal = alter(cluster, [ONE], index=index)
        assert refusal.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert refusal.error_message == f"Unable to find partition orders:{index}."


def test_another_number_of_replicas_is_refused_if_the_operator_wants_that() -> None:
    cluster = replicated(ONE, TWO, brokers=4)
    refusal = reassign(cluster, THREE, may_change_factor=False)
    assert refusal.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert refusal.error_message == "The replication factor is changed from 2 to 1"
    assert reassign(cluster, THREE, FOUR, may_change_factor=False).error_code == ErrorCode.NONE
    # While it runs, the target's number counts.
    assert reassign(cluster, THREE, ONE, may_change_factor=False).error_code == ErrorCode.NONE


def test_a_partition_that_is_named_twice_is_reassigned_once() -> None:
    cluster = replicated(ONE, brokers=3)
    partitions = [ReassignablePartition(replicas=[node]) for node in (TWO, THREE)]
    topic = ReassignableTopic(name="orders", partitions=partitions)
    reply = cluster.ask(AlterPartitionReassignmentsRequest(topics=[topic]))
    assert isinstance(reply, AlterPartitionReassignmentsResponse)
    codes = [one.error_code for one in reply.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert partition_of(cluster).replicas == (TWO, ONE)


# Listing


def test_those_that_run_are_listed() -> None:
    cluster = replicated(ONE, TWO, brokers=3)
    add_topic(cluster, "fine", ONE)
    assert ongoing(cluster) == {}
    reassign(cluster, TWO, THREE)
    expected = {"orders": [(0, [TWO, THREE, ONE], [THREE], [ONE])]}
    assert ongoing(cluster) == expected
    assert ongoing(cluster, orders=[0, 1, 0], nothing=[0], fine=[0]) == expected
    assert ongoing(cluster, fine=[0]) == {}
    cluster.try_alter_isr("orders", ONE, TWO, THREE)
    assert ongoing(cluster) == {}


# What else happens meanwhile


def test_new_partitions_get_as_many_replicas_as_the_target_has() -> None:
    cluster = replicated(ONE, TWO, brokers=4)
    reassign(cluster, THREE, FOUR)
    placed = CreatePartitionsTopic(name="orders", count=2, assignments=None)
    cluster.ask(CreatePartitionsRequest(topics=[placed]))
    assert len(cluster.topic("orders").partitions[1].replicas) == 2
    by_hand = CreatePartitionsTopic(
        name="orders", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[THREE, ONE])]
    )
    reply = cluster.ask(CreatePartitionsRequest(topics=[by_hand]))
    assert isinstance(reply, CreatePartitionsResponse)
    assert reply.results[0].error_code == ErrorCode.NONE


def test_a_topic_that_is_deleted_takes_its_reassignment_with_it() -> None:
    cluster = replicated(ONE, brokers=2)
    reassign(cluster, TWO)
    cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]))
    assert ongoing(cluster) == {}


def test_an_unclean_election_prefers_replicas_that_held_the_partition_before() -> None:
    """One that is being added may have nothing yet."""
    cluster = replicated(ONE, TWO, brokers=4, in_sync_min=1)
    cluster.fence(TWO)
    reassign(cluster, THREE, FOUR)
    cluster.fence(ONE)
    cluster.unfence(TWO)
    named = [ElectedTopicPartitions(topic="orders", partitions=[0])]
    cluster.ask(ElectLeadersRequest(election_type=ElectionType.UNCLEAN, topic_partitions=named))
    assert partition_of(cluster).leader == TWO


def test_what_a_replica_had_before_it_was_removed_does_not_count_once_it_is_back() -> None:
    """Its leader has heard of neither its removal nor its return."""
    ghost = GhostReplicas(3, 1)
    leader, other, *_ = ghost.partition.replicas
    for node in ghost.nodes:
        ghost.learn(node)
    ghost.append(leader)
    ghost.copy(leader, other)
    ghost.alter(leader, {leader})
    ghost.learn(leader)
    ghost.reassign([leader])
    ghost.learn(other)  # and deletes its log
    ghost.reassign([leader, other])
    ghost.learn(leader)
    ghost.alter(leader, {leader, other})
    ghost.check()
    assert ghost.partition.isr == (leader,)


# Nobody leaves an in-sync set to the silent


def test_a_reassignment_is_complete_once_one_of_its_target_was_heard_from() -> None:
    """Those that are silent may have lost power, and with it records that are acked."""
    cluster = replicated(ONE, TWO, THREE, brokers=6)
    reassign(cluster, FOUR, FIVE, SIX)
    cluster.elect()
    cluster.alter_isr("orders", *partition_of(cluster).replicas)
    assert partition_of(cluster).is_reassigned
    cluster.beat(TWO)
    assert partition_of(cluster).is_reassigned
    cluster.beat(FIVE)
    assert assigned(partition_of(cluster)) == ((FOUR, FIVE, SIX), (), ())
    assert partition_of(cluster).leader == FIVE
    [*_, change] = (one for one in cluster.explained if isinstance(one, PartitionChanged))
    assert change.why is Why.REASSIGNMENT


def test_replicas_are_not_dropped_in_favour_of_one_that_is_silent() -> None:
    cluster = replicated(ONE, TWO, THREE)
    cluster.elect()
    cluster.beat(ONE)
    reassign(cluster, THREE)
    assert partition_of(cluster).isr == (ONE, TWO, THREE)
    cluster.fence(THREE)
    assert partition_of(cluster).isr == (ONE, TWO)
    cluster.beat(THREE)
    assert cluster.try_alter_isr("orders", ONE, TWO, THREE) == ErrorCode.NEW_LEADER_ELECTED
    assert assigned(partition_of(cluster)) == ((THREE,), (), ())
