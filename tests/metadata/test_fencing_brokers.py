"""A broker that is fenced leads nothing; one that is unfenced leads what nobody else can."""

import pytest

from penstock.metadata.controller.broker_sessions import GoneBy
from penstock.metadata.controller.fencing import BrokersFenced, FenceBrokers, GoneBroker
from penstock.metadata.image.topic import PartitionImage
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from penstock.wire.messages.metadata_records.broker import BrokerRegistrationChangeRecord
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.cluster import Cluster

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def replicated(*replicas: NodeId, brokers: int = 3) -> Cluster:
    """A cluster with one partition of `orders` on these replicas, led by the first."""
    cluster = Cluster(brokers)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(
        name="orders", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    cluster.ask(CreateTopicsRequest(topics=[topic]))
    return cluster


def orders(cluster: Cluster) -> PartitionImage:
    return cluster.topic("orders").partitions[0]


def test_the_next_in_sync_replica_leads_in_a_new_epoch() -> None:
    cluster = replicated(TWO, THREE, ONE)
    cluster.fence(TWO)
    partition = orders(cluster)
    assert cluster.image.brokers[TWO].fenced
    assert (partition.leader, partition.leader_epoch) == (THREE, 1)
    assert partition.isr == (THREE, ONE)
    assert partition.replicas == (TWO, THREE, ONE)


def test_a_follower_that_is_fenced_leaves_the_in_sync_set_and_the_leader_keeps_its_epoch() -> None:
    cluster = replicated(TWO, THREE, ONE)
    cluster.fence(THREE)
    partition = orders(cluster)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (TWO, 0, 1)
    assert partition.isr == (TWO, ONE)


def test_a_replica_that_is_not_in_sync_does_not_lead() -> None:
    cluster = replicated(TWO, THREE, ONE)
    cluster.fence(THREE)
    cluster.unfence(THREE)
    cluster.fence(TWO)
    assert orders(cluster).leader == ONE
    cluster.fence(ONE)
    assert orders(cluster).leader is None
    assert (orders(cluster).isr, orders(cluster).elr) == ((), (ONE,))


def test_a_partition_whose_only_replica_is_fenced_has_no_leader_and_one_eligible_replica() -> None:
    cluster = replicated(TWO)
    cluster.fence(TWO)
    partition = orders(cluster)
    assert (partition.leader, partition.leader_epoch) == (None, 1)
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (TWO,), (TWO,))


def test_the_last_in_sync_replica_leads_again_when_it_is_unfenced() -> None:
    cluster = replicated(TWO, THREE)
    cluster.fence(TWO)
    cluster.fence(THREE)
    cluster.unfence(TWO)
    assert orders(cluster).leader is None, "it may lack records that were acked without it"
    cluster.unfence(THREE)
    assert (orders(cluster).leader, orders(cluster).leader_epoch) == (THREE, 3)


def test_in_sync_replicas_that_are_fenced_or_forgotten_are_passed_over() -> None:
    """No decision of ours leaves them in the set; a log of another origin may have them there."""
    cluster = replicated(TWO, THREE, ONE, brokers=4)
    topic_id = cluster.topic("orders").topic_id
    cluster.fence(THREE)
    cluster.ask(UnregisterBrokerRequest(broker_id=NodeId(4)))
    replicas = [2, 3, 4, 1]
    cluster.follow(
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=replicas, isr=replicas)
    )
    cluster.fence(TWO)
    assert orders(cluster).leader == ONE


def test_partitions_of_others_do_not_change() -> None:
    cluster = replicated(TWO, THREE)
    before = orders(cluster)
    cluster.fence(ONE)
    cluster.unfence(ONE)
    assert orders(cluster) == before


def test_a_broker_is_fenced_and_its_partitions_are_changed_in_one_decision() -> None:
    cluster = replicated(TWO, THREE)
    count = len(cluster.records)
    cluster.fence(TWO)
    partition, broker = cluster.records[count:]
    assert isinstance(partition, PartitionChangeRecord)
    assert (partition.leader, partition.isr) == (THREE, [THREE])
    assert isinstance(broker, BrokerRegistrationChangeRecord)
    assert (broker.broker_id, broker.fenced) == (TWO, 1)


def test_more_partitions_than_one_batch_holds_change_in_one_decision() -> None:
    cluster = Cluster()
    cluster.create("a", partitions=DECISION_RECORDS_MAX - 1)
    cluster.create("b", partitions=5)
    cluster.fence(ONE)
    assert not list(cluster.state.led_by(ONE))
    cluster.unfence(ONE)
    assert len(list(cluster.state.led_by(ONE))) == DECISION_RECORDS_MAX + 4


def test_fencing_a_fenced_broker_changes_nothing() -> None:
    cluster = replicated(TWO, THREE)
    cluster.fence(TWO)
    count = len(cluster.records)
    cluster.fence(TWO)
    assert len(cluster.records) == count


def test_a_later_process_is_not_fenced_for_an_earlier_one() -> None:
    cluster = Cluster(2)
    earlier = cluster.image.brokers[TWO].epoch
    cluster.register(TWO, incarnation=1)
    cluster.unfence(TWO)
    with pytest.raises(RequestError) as error:
        gone = GoneBroker(node_id=TWO, broker_epoch=earlier, by=GoneBy.SESSION)
        cluster.ask(FenceBrokers(gone=(gone,)))
    assert error.value.code == ErrorCode.STALE_BROKER_EPOCH
    assert not cluster.image.brokers[TWO].fenced


def test_a_process_that_dies_before_it_was_unfenced_leads_nothing() -> None:
    cluster = replicated(TWO)
    cluster.register(TWO, incarnation=1)
    assert orders(cluster).leader is None
    cluster.fence(TWO)
    assert orders(cluster).leader is None


def test_new_partitions_are_led_by_brokers_that_are_not_fenced() -> None:
    cluster = Cluster(3)
    cluster.fence(TWO)
    cluster.create("orders", partitions=6, replicas=3)
    for partition in cluster.topic("orders").partitions:
        assert partition.leader in (ONE, THREE)
        assert set(partition.isr) == {ONE, THREE}
        assert TWO in partition.replicas


def test_no_topic_is_created_while_all_brokers_are_fenced() -> None:
    cluster = Cluster(2)
    cluster.fence(ONE)
    cluster.fence(TWO)
    refused = cluster.try_create("orders")
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.unfence(TWO)
    cluster.create("orders")
    assert orders(cluster).leader == TWO


def test_partitions_are_not_added_on_fenced_brokers_alone() -> None:
    cluster = replicated(ONE)
    cluster.fence(TWO)
    asked = CreatePartitionsTopic(
        name="orders", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[TWO])]
    )
    reply = cluster.ask(CreatePartitionsRequest(topics=[asked]))
    assert isinstance(reply, CreatePartitionsResponse)
    assert reply.results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# Nobody leaves an in-sync set to the silent


def hear(cluster: Cluster, *node_ids: NodeId) -> None:
    for node_id in node_ids:
        cluster.sessions.heard_from(
            node_id,
            epoch=cluster.image.brokers[node_id].epoch,
            connection=f"from {node_id}",
            now_ms=cluster.now_ms,
        )


def newly_controlled(cluster: Cluster) -> Cluster:
    """Its controller was just elected, and has heard from nobody."""
    cluster.elect()
    return cluster


def test_those_that_are_fenced_together_are_all_eligible() -> None:
    cluster = replicated(TWO, THREE, ONE)
    cluster.fence(ONE, TWO, THREE)
    partition = orders(cluster)
    assert (partition.leader, partition.isr, set(partition.elr)) == (None, (), {ONE, TWO, THREE})
    assert all(broker.fenced for broker in cluster.image.brokers.values())


def test_the_first_of_them_that_comes_back_leads() -> None:
    cluster = replicated(TWO, THREE, ONE)
    cluster.fence(ONE, TWO, THREE)
    cluster.unfence(ONE)
    assert (orders(cluster).leader, orders(cluster).isr) == (ONE, (ONE,))


def test_a_later_process_is_not_fenced_with_others() -> None:
    cluster = replicated(TWO, THREE)
    earlier = GoneBroker(
        node_id=TWO, broker_epoch=cluster.image.brokers[TWO].epoch, by=GoneBy.SESSION
    )
    cluster.register(TWO, incarnation=1)
    cluster.unfence(TWO)
    other = GoneBroker(
        node_id=THREE, broker_epoch=cluster.image.brokers[THREE].epoch, by=GoneBy.CONNECTION
    )
    reply = cluster.ask(FenceBrokers(gone=(earlier, other)))
    assert reply == BrokersFenced(gone=(other,))
    assert not cluster.image.brokers[TWO].fenced


def test_a_broker_is_not_fenced_while_the_others_in_sync_are_silent() -> None:
    cluster = newly_controlled(replicated(TWO, THREE, ONE))
    with pytest.raises(RequestError) as error:
        cluster.fence(THREE)
    assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    hear(cluster, ONE)
    cluster.fence(THREE)
    assert orders(cluster).isr == (TWO, ONE)


def test_the_silent_are_fenced_with_those_that_would_leave_sets_to_them() -> None:
    cluster = newly_controlled(replicated(TWO, THREE, ONE))
    cluster.fence(ONE, TWO, THREE)
    assert set(orders(cluster).elr) == {ONE, TWO, THREE}


def test_a_broker_is_fenced_though_others_are_silent_that_share_no_set_with_it() -> None:
    cluster = newly_controlled(replicated(TWO, brokers=3))
    cluster.fence(TWO)
    assert cluster.image.brokers[TWO].fenced


def test_one_that_waits_for_the_silent_does_not_keep_others_waiting() -> None:
    cluster = newly_controlled(replicated(TWO, THREE, brokers=4))
    cluster.fence(TWO, NodeId(4))
    assert cluster.image.brokers[NodeId(4)].fenced
    assert not cluster.image.brokers[TWO].fenced
    hear(cluster, THREE)
    cluster.fence(TWO)
    assert orders(cluster).isr == (THREE,)


def with_bills(cluster: Cluster, *replicas: NodeId) -> Cluster:
    """Another topic of one partition, on these replicas."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(
        name="bills", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    cluster.ask(CreateTopicsRequest(topics=[topic]))
    return cluster


def bills(cluster: Cluster) -> PartitionImage:
    return cluster.topic("bills").partitions[0]


def test_one_that_waits_keeps_those_waiting_that_share_a_set_with_it_alone() -> None:
    cluster = with_bills(replicated(TWO, THREE, brokers=4), NodeId(4), TWO)
    newly_controlled(cluster)
    with pytest.raises(RequestError) as error:
        cluster.fence(TWO, NodeId(4))
    assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    cluster.fence(TWO, THREE, NodeId(4))
    assert set(orders(cluster).elr) == {TWO, THREE}
    assert set(bills(cluster).elr) == {TWO, NodeId(4)}


def test_one_that_waits_leaves_the_sets_in_which_somebody_lives() -> None:
    cluster = newly_controlled(with_bills(replicated(TWO, THREE, brokers=4), TWO, ONE))
    hear(cluster, ONE)
    cluster.fence(TWO)
    assert not cluster.image.brokers[TWO].fenced
    assert (bills(cluster).leader, bills(cluster).isr) == (ONE, (ONE,))
    assert (orders(cluster).leader, orders(cluster).isr) == (TWO, (TWO, THREE))
    with pytest.raises(RequestError) as error:
        cluster.fence(TWO)
    assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE, "there is nothing left to do"
    hear(cluster, THREE)
    cluster.fence(TWO)
    assert cluster.image.brokers[TWO].fenced
    assert (orders(cluster).leader, orders(cluster).isr) == (THREE, (THREE,))


def test_one_that_was_heard_from_leads_rather_than_one_that_is_silent() -> None:
    cluster = newly_controlled(replicated(TWO, THREE, ONE))
    hear(cluster, ONE)
    cluster.fence(TWO)
    assert (orders(cluster).leader, orders(cluster).isr) == (ONE, (THREE, ONE))
