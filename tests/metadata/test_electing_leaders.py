"""Elections that an operator, a setting or the controller itself asks for."""

import pytest

from penstock.metadata.controller.elections import (
    BalanceLeaders,
    ElectionType,
    LeadersBalanced,
)
from penstock.metadata.image.topic import LeaderRecovery
from penstock.model.configs import Operation, ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import ELECTIONS_AT_ONCE_MAX
from penstock.wire.messages.elect_leaders import (
    ElectedTopicPartitions,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from rig.cluster import Cluster
from rig.replicated_topic import add_topic, partition_of, replicated

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def elect(cluster: Cluster, kind: ElectionType, *names: str) -> dict[tuple[str, int], int]:
    """The error codes; all partitions are meant if there are no names."""
    named = [ElectedTopicPartitions(topic=name, partitions=[0]) for name in names]
    reply = cluster.ask(
        ElectLeadersRequest(election_type=kind, topic_partitions=named if names else None)
    )
    assert isinstance(reply, ElectLeadersResponse)
    return {
        (topic.topic, partition.partition_id): partition.error_code
        for topic in reply.replica_election_results
        for partition in topic.partition_result
    }


def led_by_another() -> Cluster:
    """The preferred replica is in sync, and another one leads."""
    cluster = replicated(ONE, TWO, in_sync_min=1)
    cluster.fence(ONE)
    cluster.unfence(ONE)
    join(cluster, ONE)
    return cluster


def join(cluster: Cluster, node_id: NodeId, name: str = "orders") -> None:
    """The replica has caught up."""
    cluster.alter_isr(name, *partition_of(cluster, name).isr, node_id)


# Preferred leaders


def test_the_preferred_replica_leads_again_in_a_new_epoch() -> None:
    cluster = led_by_another()
    before = partition_of(cluster)
    assert before.leader == TWO
    assert elect(cluster, ElectionType.PREFERRED, "orders") == {("orders", 0): 0}
    after = partition_of(cluster)
    assert (after.leader, after.leader_epoch) == (ONE, before.leader_epoch + 1)
    assert after.isr == before.isr


def test_a_partition_with_its_preferred_leader_needs_no_election() -> None:
    cluster = replicated(ONE, TWO)
    code = ErrorCode.ELECTION_NOT_NEEDED
    assert elect(cluster, ElectionType.PREFERRED, "orders") == {("orders", 0): code}


def test_a_preferred_replica_that_is_not_in_sync_is_not_elected() -> None:
    cluster = replicated(ONE, TWO, in_sync_min=1)
    cluster.fence(ONE)
    cluster.unfence(ONE)
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(cluster, ElectionType.PREFERRED, "orders") == {("orders", 0): code}
    assert partition_of(cluster).leader == TWO


def test_all_partitions_are_meant_if_none_is_named() -> None:
    cluster = led_by_another()
    add_topic(cluster, "fine", ONE, TWO)
    assert elect(cluster, ElectionType.PREFERRED) == {("orders", 0): 0}
    assert partition_of(cluster).leader == ONE


@pytest.mark.parametrize("kind", list(ElectionType))
def test_unknown_topics_and_partitions_are_told(kind: ElectionType) -> None:
    cluster = replicated(ONE, TWO)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(cluster, kind, "nothing") == {("nothing", 0): code}
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[ElectedTopicPartitions(topic="orders", partitions=[1, -1])],
    )
    reply = cluster.ask(request)
    assert isinstance(reply, ElectLeadersResponse)
    results = reply.replica_election_results[0].partition_result
    assert [result.error_code for result in results] == [code, code]


def test_an_unknown_kind_of_election_is_refused() -> None:
    with pytest.raises(RequestError) as error:
        Cluster(1).ask(ElectLeadersRequest(election_type=2, topic_partitions=None))
    assert error.value.code == ErrorCode.INVALID_REQUEST


def test_a_partition_that_is_named_twice_is_elected_once() -> None:
    cluster = led_by_another()
    count = len(cluster.records)
    elect(cluster, ElectionType.PREFERRED, "orders", "orders")
    assert len(cluster.records) == count + 1


# The controller balances leaders


def balance(cluster: Cluster) -> LeadersBalanced:
    reply = cluster.ask(BalanceLeaders())
    assert isinstance(reply, LeadersBalanced)
    return reply


def test_the_controller_lets_preferred_replicas_lead_again() -> None:
    cluster = led_by_another()
    assert balance(cluster) == LeadersBalanced(elected=1, is_done=True)
    assert partition_of(cluster).leader == ONE
    count = len(cluster.records)
    assert balance(cluster) == LeadersBalanced(elected=0, is_done=True)
    assert len(cluster.records) == count


def test_the_controller_leaves_leaders_whose_preferred_replica_is_not_in_sync() -> None:
    cluster = replicated(ONE, TWO, in_sync_min=1)
    cluster.fence(ONE)
    cluster.unfence(ONE)
    assert balance(cluster).elected == 0
    assert partition_of(cluster).leader == TWO


def test_many_leaders_are_balanced_in_several_decisions() -> None:
    cluster = Cluster(2)
    cluster.check_state = False
    cluster.create("orders", partitions=2 * ELECTIONS_AT_ONCE_MAX + 20, replicas=2)
    cluster.fence(TWO)
    cluster.unfence(TWO)
    count = len(list(cluster.state.imbalanced()))
    assert count > ELECTIONS_AT_ONCE_MAX
    for index, partition in enumerate(cluster.topic("orders").partitions):
        if partition.replicas[0] == TWO:
            cluster.alter_isr("orders", ONE, TWO, index=index)
    assert balance(cluster) == LeadersBalanced(elected=ELECTIONS_AT_ONCE_MAX, is_done=False)
    rest = count - ELECTIONS_AT_ONCE_MAX
    assert balance(cluster) == LeadersBalanced(elected=rest, is_done=True)
    assert not list(cluster.state.imbalanced())


# Unclean elections


def without_leader(**config: str) -> Cluster:
    """One led last, and has all records; Two lives."""
    cluster = replicated(ONE, TWO, in_sync_min=1, **config)
    cluster.fence(TWO)
    cluster.fence(ONE)
    cluster.unfence(TWO)
    return cluster


def test_an_operator_lets_a_replica_lead_that_may_lack_records() -> None:
    cluster = without_leader()
    assert partition_of(cluster).leader is None
    assert elect(cluster, ElectionType.UNCLEAN, "orders") == {("orders", 0): 0}
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr) == (TWO, (TWO,))
    assert (partition.elr, partition.last_known_elr) == ((), ())
    assert partition.leader_recovery_state == LeaderRecovery.RECOVERING


def test_a_partition_with_a_leader_needs_no_unclean_election() -> None:
    cluster = led_by_another()
    code = ErrorCode.ELECTION_NOT_NEEDED
    assert elect(cluster, ElectionType.UNCLEAN, "orders") == {("orders", 0): code}


def test_an_unclean_election_needs_a_replica_that_lives() -> None:
    cluster = without_leader()
    cluster.fence(TWO)
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert elect(cluster, ElectionType.UNCLEAN, "orders") == {("orders", 0): code}


def test_an_unclean_election_takes_the_last_leader_before_others() -> None:
    cluster = replicated(TWO, ONE, THREE)
    for node_id in (TWO, THREE, ONE):
        cluster.fence(node_id)
    cluster.register(ONE, incarnation=1)
    cluster.unfence(TWO)
    cluster.unfence(ONE)
    partition = partition_of(cluster)
    assert (partition.leader, partition.elr, partition.last_known_elr) == (None, (THREE,), (ONE,))
    elect(cluster, ElectionType.UNCLEAN, "orders")
    assert partition_of(cluster).leader == ONE


def test_without_the_setting_no_unclean_election_takes_place() -> None:
    assert partition_of(without_leader()).leader is None


def test_the_setting_of_the_topic_lets_any_living_replica_lead() -> None:
    cluster = without_leader(unclean_leader_election_enable="true")
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.elr) == (TWO, (TWO,), ())
    assert partition.leader_recovery_state == LeaderRecovery.RECOVERING


def test_even_with_the_setting_a_replica_that_has_all_records_goes_before_others() -> None:
    cluster = replicated(ONE, TWO, THREE, unclean_leader_election_enable="true")
    cluster.fence(TWO)
    cluster.unfence(TWO)
    cluster.fence(ONE)
    partition = partition_of(cluster)
    assert (partition.leader, partition.leader_recovery_state) == (THREE, LeaderRecovery.RECOVERED)


def set_config(cluster: Cluster, kind: ResourceKind, name: str, key: str, value: str) -> int:
    config = AlterableConfig(name=key, config_operation=Operation.SET, value=value)
    reply = cluster.ask(
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
            ]
        )
    )
    assert isinstance(reply, IncrementalAlterConfigsResponse)
    return reply.responses[0].error_code


ENABLE = "unclean.leader.election.enable"


@pytest.mark.parametrize(
    ("kind", "name"), [(ResourceKind.TOPIC, "orders"), (ResourceKind.BROKER, "")]
)
def test_a_partition_without_leader_elects_one_when_the_setting_allows_it(
    kind: ResourceKind, name: str
) -> None:
    cluster = without_leader()
    assert set_config(cluster, kind, name, ENABLE, "true") == 0
    assert partition_of(cluster).leader == TWO


def test_a_topic_that_forbids_it_stays_without_leader_whatever_the_cluster_allows() -> None:
    cluster = without_leader(unclean_leader_election_enable="false")
    assert set_config(cluster, ResourceKind.BROKER, "", ENABLE, "true") == 0
    assert partition_of(cluster).leader is None
    assert set_config(cluster, ResourceKind.TOPIC, "orders", ENABLE, "true") == 0
    assert partition_of(cluster).leader == TWO


def test_other_topics_elect_nobody() -> None:
    cluster = without_leader()
    add_topic(cluster, "clicks", TWO, THREE)
    set_config(cluster, ResourceKind.TOPIC, "clicks", ENABLE, "true")
    assert partition_of(cluster).leader is None
