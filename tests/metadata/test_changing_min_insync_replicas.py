"""`min.insync.replicas` is a setting of topics and the cluster, and who is eligible goes by it."""

import pytest

from penstock.metadata.controller.brokers import bootstrap_records
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.records import ELR_VERSION_FEATURE
from penstock.metadata.topic_rules import MIN_IN_SYNC, min_in_sync
from penstock.model.configs import Operation, ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages import alter_configs as replacing
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.partition import ClearElrRecord
from rig.cluster import Cluster
from rig.replicated_topic import add_topic, partition_of, replicated

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
TOPIC, BROKER = ResourceKind.TOPIC, ResourceKind.BROKER


def change(
    cluster: Cluster, kind: ResourceKind, name: str, value: str | None
) -> tuple[int, str | None]:
    operation = Operation.DELETE if value is None else Operation.SET
    config = AlterableConfig(name=MIN_IN_SYNC, config_operation=operation, value=value)
    reply = cluster.ask(
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
            ]
        )
    )
    assert isinstance(reply, IncrementalAlterConfigsResponse)
    return reply.responses[0].error_code, reply.responses[0].error_message


def with_eligible() -> Cluster:
    """One leads both topics, and Two is eligible."""
    cluster = replicated(ONE, TWO)
    add_topic(cluster, "clicks", ONE, TWO)
    cluster.fence(TWO)
    assert partition_of(cluster).elr == partition_of(cluster, "clicks").elr == (TWO,)
    return cluster


def test_a_change_for_a_topic_clears_the_eligible_replicas_of_that_topic() -> None:
    cluster = with_eligible()
    count = len(cluster.records)
    assert change(cluster, TOPIC, "orders", "1") == (0, None)
    setting, cleared = cluster.records[count:]
    assert isinstance(setting, ConfigRecord)
    assert isinstance(cleared, ClearElrRecord)
    assert partition_of(cluster).elr == ()
    assert partition_of(cluster, "clicks").elr == (TWO,)


def test_a_change_for_the_cluster_clears_the_eligible_replicas_of_all_topics() -> None:
    cluster = with_eligible()
    assert change(cluster, BROKER, "", "1") == (0, None)
    assert partition_of(cluster).elr == partition_of(cluster, "clicks").elr == ()


def test_a_setting_that_a_topic_loses_is_a_change() -> None:
    cluster = with_eligible()
    change(cluster, TOPIC, "orders", "2")
    cluster.unfence(TWO)
    cluster.alter_isr("orders", ONE, TWO)
    cluster.fence(TWO)
    assert partition_of(cluster).elr == (TWO,)
    assert change(cluster, TOPIC, "orders", None) == (0, None)
    assert partition_of(cluster).elr == ()


def test_replacing_the_settings_of_a_topic_is_a_change_too() -> None:
    cluster = with_eligible()
    config = replacing.AlterableConfig(name=MIN_IN_SYNC, value="1")
    resource = replacing.AlterConfigsResource(
        resource_type=TOPIC, resource_name="orders", configs=[config]
    )
    cluster.ask(replacing.AlterConfigsRequest(resources=[resource]))
    assert partition_of(cluster).elr == ()


def test_a_replica_that_lacks_what_was_acked_after_the_change_is_not_elected() -> None:
    cluster = with_eligible()
    change(cluster, TOPIC, "orders", "1")  # from now on One acks alone
    cluster.fence(ONE)
    cluster.unfence(TWO)
    assert partition_of(cluster).leader is None
    cluster.unfence(ONE)
    assert partition_of(cluster).leader == ONE


def test_a_partition_without_leader_keeps_who_is_eligible() -> None:
    cluster = with_eligible()
    cluster.fence(ONE)
    change(cluster, BROKER, "", "1")
    partition = partition_of(cluster)
    assert (partition.elr, partition.last_known_elr) == ((ONE, TWO), (ONE,))
    cluster.unfence(TWO)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr) == (TWO, (TWO,))
    assert partition.elr == (), "the new leader acks alone: One may lack that"


def test_trying_a_change_changes_nothing() -> None:
    cluster = with_eligible()
    config = AlterableConfig(name=MIN_IN_SYNC, config_operation=Operation.SET, value="1")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=[config])
    cluster.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=True))
    assert partition_of(cluster).elr == (TWO,)


# Where it may be set


@pytest.mark.parametrize("value", ["2", None])
def test_a_single_broker_has_none_of_its_own(value: str | None) -> None:
    cluster = Cluster(2)
    cluster.follow(
        ConfigRecord(resource_type=BROKER, resource_name="1", name=MIN_IN_SYNC, value="3")
    )
    code, message = change(cluster, BROKER, "1", value)
    assert code == ErrorCode.INVALID_CONFIG
    assert message == "Broker-level min.insync.replicas cannot be altered while ELR is enabled."


def test_the_default_of_the_cluster_cannot_be_removed() -> None:
    cluster = Cluster(2)
    code, message = change(cluster, BROKER, "", None)
    assert code == ErrorCode.INVALID_CONFIG
    assert message == "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."


def test_a_new_cluster_has_a_default_from_its_first_records_on() -> None:
    state = ControllerState()
    for record in bootstrap_records(min_insync_replicas=2):
        state.apply(record)
    assert state.features[ELR_VERSION_FEATURE] == 1
    assert min_in_sync(state, "orders", replicas=3) == 2


def test_the_log_of_an_older_version_gets_one_default_when_a_broker_registers() -> None:
    cluster = Cluster(0, min_insync_replicas="2")
    cluster.state = ControllerState()
    for record in (
        ConfigRecord(resource_type=BROKER, resource_name="7", name=MIN_IN_SYNC, value="3"),
        *(one for one in bootstrap_records() if getattr(one, "name", "") == "metadata.version"),
    ):
        cluster.state.apply(record)
    cluster.register(ONE)
    assert cluster.state.config(BROKER, "") == {MIN_IN_SYNC: "2"}
    assert cluster.state.config(BROKER, "7") == {}
    assert cluster.state.features[ELR_VERSION_FEATURE] == 1
