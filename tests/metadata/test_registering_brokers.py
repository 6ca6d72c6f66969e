"""Which processes may register as a broker, and what becomes of the process before."""

import pytest

from penstock.metadata.image.topic import LeaderRecovery
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.cluster import Cluster

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def refusal(cluster: Cluster, request: BrokerRegistrationRequest) -> RequestError:
    count = len(cluster.records)
    with pytest.raises(RequestError) as error:
        cluster.ask(request)
    assert len(cluster.records) == count
    return error.value


def hear(cluster: Cluster, node_id: NodeId) -> None:
    cluster.sessions.heard_from(
        node_id,
        epoch=cluster.image.brokers[node_id].epoch,
        connection=f"from {node_id}",
        now_ms=cluster.now_ms,
    )


# Who may register


def test_a_broker_of_another_cluster_is_refused() -> None:
    cluster = Cluster(1)
    request = cluster.registration(TWO)
    request.cluster_id = "another"
    error = refusal(cluster, request)
    assert error.code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert "another" in str(error)


def test_a_second_process_with_a_living_brokers_id_is_refused() -> None:
    cluster = Cluster(2)
    hear(cluster, TWO)
    error = refusal(cluster, cluster.registration(TWO, incarnation=1))
    assert error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.sessions.connection_lost("from 2")
    elsewhere = cluster.registration(TWO, incarnation=1, port=1234)
    assert refusal(cluster, elsewhere).code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_process_that_restarted_replaces_the_one_whose_connection_broke() -> None:
    cluster = Cluster(2)
    hear(cluster, TWO)
    cluster.sessions.connection_lost("from 2")
    before = cluster.image.brokers[TWO].epoch
    assert cluster.register(TWO, incarnation=1) > before


def test_a_process_that_restarted_replaces_one_that_a_new_controller_never_heard_of() -> None:
    cluster = Cluster(2)
    cluster.elect()
    elsewhere = cluster.registration(TWO, incarnation=1, port=1234)
    assert refusal(cluster, elsewhere).code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.register(TWO, incarnation=1)


def test_a_process_that_lost_nothing_waits_while_the_others_in_sync_are_silent() -> None:
    cluster = Cluster(3)
    cluster.create("orders", replicas=3)
    cluster.elect()
    epoch = cluster.image.brokers[THREE].epoch
    restarted = cluster.registration(THREE, incarnation=1, previous_broker_epoch=epoch)
    assert refusal(cluster, restarted).code == ErrorCode.BROKER_NOT_AVAILABLE
    cluster.register(TWO, incarnation=1)  # it has lost records
    assert set(cluster.topic("orders").partitions[0].isr) == {ONE, THREE}
    assert refusal(cluster, restarted).code == ErrorCode.BROKER_NOT_AVAILABLE
    cluster.register(ONE, incarnation=1)
    cluster.ask(restarted)
    cluster.unfence(THREE)
    assert cluster.topic("orders").partitions[0].leader == THREE


def test_a_process_that_lost_nothing_is_taken_when_another_in_sync_was_heard_from() -> None:
    cluster = Cluster(3)
    cluster.create("orders", replicas=3)
    cluster.elect()
    hear(cluster, TWO)
    epoch = cluster.image.brokers[THREE].epoch
    cluster.register(THREE, incarnation=1, previous_broker_epoch=epoch)
    assert set(cluster.topic("orders").partitions[0].isr) == {ONE, TWO}


def test_processes_that_lost_nothing_do_not_wait_for_each_other() -> None:
    """They are fenced together when the last of them has come, and all of them may lead."""
    cluster = Cluster(3)
    cluster.create("orders", replicas=3)
    cluster.elect()
    for node_id in (ONE, TWO, THREE):
        epoch = cluster.image.brokers[node_id].epoch
        restarted = cluster.registration(node_id, incarnation=1, previous_broker_epoch=epoch)
        assert refusal(cluster, restarted).code == ErrorCode.BROKER_NOT_AVAILABLE
        assert cluster.sessions.restarted(node_id)
    cluster.fence(ONE, TWO, THREE)
    for node_id in (ONE, TWO, THREE):
        epoch = cluster.image.brokers[node_id].epoch
        cluster.register(node_id, incarnation=1, previous_broker_epoch=epoch)
    partition = cluster.topic("orders").partitions[0]
    assert (partition.isr, set(partition.elr)) == ((), {ONE, TWO, THREE})


def test_one_that_is_registered_but_unheard_of_for_half_a_session_is_waited_for() -> None:
    cluster = Cluster(2)
    cluster.create("orders", replicas=2)
    hear(cluster, TWO)
    cluster.now_ms = cluster.settings.broker_session_timeout_ms // 2
    epoch = cluster.image.brokers[ONE].epoch
    restarted = cluster.registration(ONE, incarnation=1, previous_broker_epoch=epoch)
    assert refusal(cluster, restarted).code == ErrorCode.BROKER_NOT_AVAILABLE
    hear(cluster, TWO)
    cluster.ask(restarted)


def test_any_process_replaces_one_whose_session_has_ended() -> None:
    cluster = Cluster(2)
    hear(cluster, TWO)
    cluster.now_ms = cluster.settings.broker_session_timeout_ms
    cluster.ask(cluster.registration(TWO, incarnation=1, port=1234))
    assert cluster.image.brokers[TWO].endpoints[0].port == 1234


def test_any_process_replaces_one_that_was_told_to_shut_down() -> None:
    cluster = Cluster(2)
    hear(cluster, TWO)
    cluster.heartbeat(TWO, want_shut_down=True)
    cluster.ask(cluster.registration(TWO, incarnation=1, port=1234))
    assert cluster.image.brokers[TWO].endpoints[0].port == 1234


def test_the_same_process_may_register_again_while_it_lives() -> None:
    cluster = Cluster(2)
    hear(cluster, TWO)
    count = len(cluster.records)
    assert cluster.register(TWO) == cluster.image.brokers[TWO].epoch
    assert len(cluster.records) == count


def test_a_broker_that_does_not_support_a_finalised_level_is_refused() -> None:
    cluster = Cluster(1)
    request = cluster.registration(TWO)
    request.features[0].max_supported_version = request.features[0].min_supported_version = 1
    assert refusal(cluster, request).code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_that_does_not_know_a_finalised_feature_is_refused() -> None:
    cluster = Cluster(1)
    cluster.follow(FeatureLevelRecord(name="group.version", feature_level=1))
    error = refusal(cluster, cluster.registration(TWO))
    assert error.code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.version" in str(error)


@pytest.mark.parametrize(
    ("directories", "message"),
    [
        ([], "No directories"),
        ([bytes(15) + b"\x02"], "Reserved"),
        ([b"d" * 16, b"d" * 16], "Duplicate"),
        ([b"\x01" * 16], "Broker 1 is already registered"),
    ],
)
def test_a_broker_with_directories_that_cannot_be_is_refused(
    directories: list[bytes], message: str
) -> None:
    cluster = Cluster(1)
    request = cluster.registration(TWO)
    request.log_dirs = directories
    error = refusal(cluster, request)
    assert error.code == ErrorCode.INVALID_REGISTRATION
    assert message in str(error)


@pytest.mark.parametrize("node_id", [-1, -2, -(2**31)])
def test_a_broker_with_a_negative_id_is_refused(node_id: int) -> None:
    cluster = Cluster(1)
    request = cluster.registration(TWO)
    request.broker_id = node_id
    error = refusal(cluster, request)
    assert error.code == ErrorCode.INVALID_REGISTRATION
    assert str(node_id) in str(error)


@pytest.mark.parametrize("protocol", [-1, 4, 32767])
def test_a_broker_whose_listener_has_an_unknown_protocol_is_refused(protocol: int) -> None:
    cluster = Cluster(1)
    request = cluster.registration(TWO)
    request.listeners[0].security_protocol = protocol
    error = refusal(cluster, request)
    assert error.code == ErrorCode.INVALID_REGISTRATION
    assert str(protocol) in str(error)


# What becomes of the process before


def test_a_new_process_leaves_the_in_sync_sets_that_have_other_members() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=3)
    led = [part for part in cluster.topic("orders").partitions if part.leader == TWO]
    stopped = cluster.image.brokers[TWO].epoch
    cluster.register(TWO, incarnation=1, previous_broker_epoch=stopped)  # clean or not
    partitions = cluster.topic("orders").partitions
    assert all(part.leader in (ONE, THREE) for part in partitions)
    assert all(set(part.isr) == {ONE, THREE} for part in partitions)
    assert sum(part.leader_epoch for part in partitions) == len(led)


def test_a_new_process_leads_what_only_it_is_in_sync_with_in_a_new_epoch() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3)
    stopped = cluster.image.brokers[TWO].epoch
    cluster.register(TWO, incarnation=1, previous_broker_epoch=stopped)
    left = [part for part in cluster.topic("orders").partitions if part.leader is None]
    assert [(part.leader_epoch, part.elr) for part in left] == [(1, (TWO,))]
    cluster.unfence(TWO)
    led = [part for part in cluster.topic("orders").partitions if part.leader == TWO]
    assert [(part.leader_epoch, part.isr) for part in led] == [(2, (TWO,))]
    assert [part.leader_recovery_state for part in led] == [LeaderRecovery.RECOVERED]


def test_a_new_process_of_a_fenced_broker_leads_again_when_it_is_unfenced() -> None:
    cluster = Cluster(2)
    cluster.create("orders", partitions=2)
    cluster.fence(TWO)
    count = len(cluster.records)
    fenced = cluster.image.brokers[TWO].epoch
    cluster.register(TWO, incarnation=1, previous_broker_epoch=fenced)
    assert len(cluster.records) == count + 1, "it led nothing, and has lost nothing"
    cluster.unfence(TWO)
    assert len(list(cluster.state.led_by(TWO))) == 1


def test_the_epoch_is_the_offset_of_the_registration() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3)
    end_offset = len(cluster.records)
    assert cluster.register(TWO, incarnation=1) == end_offset


# Brokers that do not come back


def test_a_broker_is_forgotten() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=2)
    cluster.create("alone", partitions=3)
    cluster.ask(UnregisterBrokerRequest(broker_id=TWO))
    assert TWO not in cluster.image.brokers
    assert not list(cluster.state.led_by(TWO))
    for part in cluster.topic("orders").partitions:
        assert part.leader is not None
        assert TWO not in part.isr
    lost = [part for part in cluster.topic("alone").partitions if part.leader is None]
    assert [(part.isr, part.elr, part.last_known_elr) for part in lost] == [((), (), (TWO,))]


def test_a_broker_that_was_forgotten_may_register_again_and_lead_what_it_has() -> None:
    cluster = Cluster(2)
    cluster.create("orders", partitions=2)
    cluster.ask(UnregisterBrokerRequest(broker_id=TWO))
    cluster.register(TWO)
    cluster.unfence(TWO)
    assert len(list(cluster.state.led_by(TWO))) == 1


def test_others_are_fenced_and_take_over_beside_a_broker_that_was_forgotten() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=3)
    cluster.ask(UnregisterBrokerRequest(broker_id=TWO))
    cluster.fence(THREE)
    assert {part.leader for part in cluster.topic("orders").partitions} == {ONE}


def test_a_broker_that_is_not_registered_cannot_be_forgotten() -> None:
    cluster = Cluster(1)
    with pytest.raises(RequestError) as error:
        cluster.ask(UnregisterBrokerRequest(broker_id=TWO))
    assert error.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
