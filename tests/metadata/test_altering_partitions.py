"""A leader changes the in-sync set of its partition, if it is the leader and knows the latest."""

from collections.abc import Callable

import pytest

from penstock.metadata.image.changes import SHUTTING_DOWN
from penstock.metadata.image.topic import LeaderRecovery, PartitionImage
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from penstock.wire.messages.metadata_records.broker import BrokerRegistrationChangeRecord
from rig.cluster import Cluster
from rig.replicated_topic import partition_of, replicated

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def request(cluster: Cluster, *isr: NodeId) -> AlterPartitionRequest:
    """What the leader of `orders` asks for, knowing everything."""
    partition = partition_of(cluster)
    leader = partition.leader or partition.replicas[0]
    brokers = cluster.image.brokers
    return AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=brokers[leader].epoch,
        topics=[
            AlterPartitionTopic(
                topic_id=cluster.topic("orders").topic_id,
                partitions=[
                    AlterPartitionData(
                        partition_index=0,
                        leader_epoch=partition.leader_epoch,
                        new_isr_with_epochs=[
                            BrokerState(
                                broker_id=node,
                                broker_epoch=brokers[node].epoch if node in brokers else -1,
                            )
                            for node in isr
                        ],
                        leader_recovery_state=LeaderRecovery.RECOVERED,
                        partition_epoch=partition.partition_epoch,
                    )
                ],
            )
        ],
    )


def ask(cluster: Cluster, asked: AlterPartitionRequest) -> AlteredPartition:
    reply = cluster.ask(asked)
    assert isinstance(reply, AlterPartitionResponse)
    return reply.topics[0].partitions[0]


def described(altered: AlteredPartition) -> tuple[object, ...]:
    return (
        altered.leader_id,
        altered.leader_epoch,
        tuple(altered.isr),
        altered.partition_epoch,
        altered.leader_recovery_state,
    )


def as_in_the_image(partition: PartitionImage) -> tuple[object, ...]:
    return (
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.partition_epoch,
        partition.leader_recovery_state,
    )


def test_a_shrink_raises_the_partition_epoch_and_not_the_leader_epoch() -> None:
    cluster = replicated(ONE, TWO, THREE)
    altered = ask(cluster, request(cluster, ONE, THREE))
    partition = partition_of(cluster)
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == (
        (ONE, THREE),
        0,
        1,
    )
    assert described(altered) == as_in_the_image(partition)


def test_a_replica_that_has_caught_up_joins() -> None:
    cluster = replicated(ONE, TWO, THREE)
    ask(cluster, request(cluster, ONE))
    altered = ask(cluster, request(cluster, ONE, THREE))
    assert altered.error_code == ErrorCode.NONE
    assert partition_of(cluster).isr == (ONE, THREE)


def test_what_leaves_below_the_minimum_is_eligible_until_the_set_is_large_enough() -> None:
    cluster = replicated(ONE, TWO, THREE)
    ask(cluster, request(cluster, ONE))
    assert partition_of(cluster).elr == (TWO, THREE)
    ask(cluster, request(cluster, ONE, TWO))
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((ONE, TWO), ())


def test_who_joins_a_set_that_is_still_too_small_is_not_eligible_as_well() -> None:
    cluster = replicated(ONE, TWO, THREE, in_sync_min=3)
    ask(cluster, request(cluster, ONE))
    ask(cluster, request(cluster, ONE, THREE))
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((ONE, THREE), (TWO,))


def test_the_set_that_is_there_already_writes_nothing() -> None:
    cluster = replicated(ONE, TWO, THREE)
    count = len(cluster.records)
    altered = ask(cluster, request(cluster, ONE, TWO, THREE))
    assert described(altered) == as_in_the_image(partition_of(cluster))
    assert len(cluster.records) == count


def test_version_two_names_replicas_without_broker_epochs() -> None:
    cluster = replicated(ONE, TWO, THREE)
    asked = request(cluster)
    asked.topics[0].partitions[0].new_isr = [ONE, TWO]
    assert ask(cluster, asked).error_code == ErrorCode.NONE
    assert partition_of(cluster).isr == (ONE, TWO)


# Who may ask


def test_a_broker_that_is_not_registered_with_this_epoch_is_refused_wholly() -> None:
    cluster = replicated(ONE, TWO, THREE)
    asked = request(cluster, ONE)
    asked.broker_epoch -= 1
    with pytest.raises(RequestError) as error:
        cluster.ask(asked)
    assert error.value.code == ErrorCode.STALE_BROKER_EPOCH


Spoil = Callable[[AlterPartitionRequest, AlterPartitionData], None]


def spoil(change: Spoil, code: ErrorCode, isr: tuple[NodeId, ...] = (ONE, TWO)) -> None:
    cluster = replicated(ONE, TWO, THREE)
    cluster.fence(TWO)
    cluster.unfence(TWO)
    before, count = partition_of(cluster), len(cluster.records)
    asked = request(cluster, *isr)
    change(asked, asked.topics[0].partitions[0])
    assert ask(cluster, asked).error_code == code
    assert partition_of(cluster) == before
    assert len(cluster.records) == count


def test_another_broker_than_the_leader_is_refused() -> None:
    cluster = replicated(ONE, TWO, THREE)
    asked = request(cluster, ONE, TWO)
    asked.broker_id, asked.broker_epoch = TWO, cluster.image.brokers[TWO].epoch
    assert ask(cluster, asked).error_code == ErrorCode.INVALID_REQUEST


def test_an_earlier_leader_epoch_is_fenced() -> None:
    def change(_: AlterPartitionRequest, data: AlterPartitionData) -> None:
        data.leader_epoch -= 1

    spoil(change, ErrorCode.FENCED_LEADER_EPOCH)


def test_an_earlier_partition_epoch_is_out_of_date() -> None:
    def change(_: AlterPartitionRequest, data: AlterPartitionData) -> None:
        data.partition_epoch -= 1

    spoil(change, ErrorCode.INVALID_UPDATE_VERSION)


@pytest.mark.parametrize("field", ["leader_epoch", "partition_epoch"])
def test_a_later_epoch_is_for_another_controller(field: str) -> None:
    def change(_: AlterPartitionRequest, data: AlterPartitionData) -> None:
        setattr(data, field, getattr(data, field) + 1)

    spoil(change, ErrorCode.NOT_CONTROLLER)


def test_an_unknown_topic_is_told() -> None:
    def change(asked: AlterPartitionRequest, _: AlterPartitionData) -> None:
        asked.topics[0].topic_id = b"?" * 16

    spoil(change, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("index", [1, -1])
def test_an_unknown_partition_is_told(index: int) -> None:
    def change(_: AlterPartitionRequest, data: AlterPartitionData) -> None:
        data.partition_index = index

    spoil(change, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize(
    "isr",
    [(TWO,), (), (ONE, ONE), (ONE, NodeId(4))],
    ids=["without the leader", "empty", "twice the same", "no replica"],
)
def test_a_set_that_cannot_be_is_refused(isr: tuple[NodeId, ...]) -> None:
    def change(_: AlterPartitionRequest, data: AlterPartitionData) -> None:
        pass

    spoil(change, ErrorCode.INVALID_REQUEST, isr)


def test_a_partition_that_is_named_twice_is_changed_once() -> None:
    cluster = replicated(ONE, TWO, THREE)
    asked = request(cluster, ONE, TWO)
    asked.topics[0].partitions.append(request(cluster, ONE).topics[0].partitions[0])
    reply = cluster.ask(asked)
    assert isinstance(reply, AlterPartitionResponse)
    codes = [partition.error_code for partition in reply.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert partition_of(cluster).isr == (ONE, TWO)


# Who may join


def test_a_fenced_replica_does_not_join() -> None:
    cluster = replicated(ONE, TWO, THREE)
    cluster.fence(TWO)
    asked = request(cluster, ONE, TWO, THREE)
    assert ask(cluster, asked).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_request_that_comes_after_a_later_one_was_refused_is_void() -> None:
    """The leader asked twice, since the first reply did not come. By the refusal it knows that the
    replica has not joined, and commits without it: the first request must not add it after all.
    """
    cluster = replicated(ONE, TWO, THREE)
    cluster.fence(TWO)
    cluster.unfence(TWO)
    late = request(cluster, ONE, TWO, THREE)
    cluster.fence(TWO)
    assert ask(cluster, late).error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.unfence(TWO)
    assert ask(cluster, late).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert partition_of(cluster).isr == (ONE, THREE)
    now = request(cluster, ONE, TWO, THREE)
    assert ask(cluster, now).error_code == ErrorCode.NONE


def test_a_replica_that_shuts_down_does_not_join() -> None:
    cluster = replicated(ONE, TWO, THREE)
    cluster.alter_isr("orders", ONE, THREE)
    cluster.follow(
        BrokerRegistrationChangeRecord(
            broker_id=TWO,
            broker_epoch=cluster.image.brokers[TWO].epoch,
            in_controlled_shutdown=SHUTTING_DOWN,
        )
    )
    asked = request(cluster, ONE, TWO, THREE)
    assert ask(cluster, asked).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_does_not_join_as_the_process_that_it_was() -> None:
    cluster = replicated(ONE, TWO, THREE)
    cluster.fence(TWO)
    asked = request(cluster, ONE, TWO, THREE)
    cluster.register(TWO, incarnation=1)
    cluster.unfence(TWO)
    asked.topics[0].partitions[0].partition_epoch = partition_of(cluster).partition_epoch
    assert ask(cluster, asked).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert ask(cluster, request(cluster, ONE, TWO, THREE)).error_code == ErrorCode.NONE


# A leader that was elected uncleanly


def recovering() -> Cluster:
    cluster = replicated(ONE, TWO, in_sync_min=1)
    cluster.fence(TWO)
    cluster.register(ONE, incarnation=1)
    cluster.unfence(ONE)
    cluster.unfence(TWO)
    assert partition_of(cluster).leader_recovery_state == LeaderRecovery.RECOVERING
    return cluster


def test_the_set_does_not_grow_while_the_leader_recovers() -> None:
    cluster = recovering()
    asked = request(cluster, ONE, TWO)
    asked.topics[0].partitions[0].leader_recovery_state = LeaderRecovery.RECOVERING
    assert ask(cluster, asked).error_code == ErrorCode.INVALID_REQUEST
    assert partition_of(cluster).isr == (ONE,)


def test_the_set_grows_once_the_leader_has_recovered() -> None:
    cluster = recovering()
    altered = ask(cluster, request(cluster, ONE))
    assert altered.leader_recovery_state == LeaderRecovery.RECOVERED
    assert partition_of(cluster).leader_recovery_state == LeaderRecovery.RECOVERED
    ask(cluster, request(cluster, ONE, TWO))
    assert partition_of(cluster).isr == (ONE, TWO)


def test_a_leader_that_has_recovered_does_not_recover_again() -> None:
    def change(_: AlterPartitionRequest, data: AlterPartitionData) -> None:
        data.leader_recovery_state = LeaderRecovery.RECOVERING

    spoil(change, ErrorCode.INVALID_REQUEST, (ONE,))


def test_an_unknown_recovery_state_is_refused() -> None:
    def change(_: AlterPartitionRequest, data: AlterPartitionData) -> None:
        data.leader_recovery_state = 2

    spoil(change, ErrorCode.INVALID_REQUEST, (ONE,))
