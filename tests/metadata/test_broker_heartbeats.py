"""What a broker asks for with its heartbeats: to be unfenced, fenced, or shut down."""

import pytest

from penstock.metadata.controller.broker_sessions import BrokerSessions
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from rig.cluster import Cluster

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def test_a_broker_is_unfenced_once_it_has_applied_its_registration() -> None:
    cluster = Cluster(1)
    epoch = cluster.register(TWO)
    behind = cluster.heartbeat(TWO, metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert cluster.image.brokers[TWO].fenced
    caught_up = cluster.heartbeat(TWO, metadata_offset=epoch)
    assert (caught_up.is_caught_up, caught_up.is_fenced) == (True, False)
    assert not cluster.image.brokers[TWO].fenced


def test_a_broker_that_wants_to_stay_fenced_stays_fenced() -> None:
    cluster = Cluster(1)
    cluster.register(TWO)
    reply = cluster.heartbeat(TWO, want_fence=True)
    assert (reply.is_caught_up, reply.is_fenced, reply.should_shut_down) == (True, True, False)
    assert cluster.image.brokers[TWO].fenced


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    cluster = Cluster(2)
    count = len(cluster.records)
    reply = cluster.heartbeat(TWO, metadata_offset=0)
    assert (reply.is_caught_up, reply.is_fenced) == (False, False)
    assert len(cluster.records) == count


def test_a_broker_that_asks_for_it_is_fenced() -> None:
    cluster = Cluster(2)
    cluster.create("orders", partitions=2, replicas=2)
    reply = cluster.heartbeat(TWO, want_fence=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, False)
    assert {partition.leader for partition in cluster.topic("orders").partitions} == {ONE}
    cluster.unfence(TWO)


def test_a_broker_that_shuts_down_hands_over_what_it_leads() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=2)
    cluster.create("alone", partitions=3)
    cluster.shut_down(TWO)
    assert not list(cluster.state.led_by(TWO))
    assert all(partition.leader for partition in cluster.topic("orders").partitions)
    without = [part for part in cluster.topic("alone").partitions if part.leader is None]
    assert [(part.isr, part.elr) for part in without] == [((), (TWO,))]
    broker = cluster.image.brokers[TWO]
    assert broker.fenced
    assert broker.in_controlled_shutdown


def test_a_broker_that_shuts_down_stays_until_the_others_know_the_new_leaders() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=2)
    cluster.beat(TWO, want_shut_down=True)
    cluster.beat(THREE)
    reply = cluster.beat(TWO, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    assert not list(cluster.state.led_by(TWO))
    assert all(TWO not in partition.isr for partition in cluster.topic("orders").partitions)
    count = len(cluster.records)
    cluster.beat(ONE)
    assert not cluster.beat(TWO, want_shut_down=True).should_shut_down, "Three does not know yet"
    assert len(cluster.records) == count, "it has said so already"
    cluster.heartbeat_at(THREE, count - 2)
    assert not cluster.beat(TWO, want_shut_down=True).should_shut_down, "Three lags behind"
    cluster.heartbeat_at(THREE, count - 1)
    reply = cluster.beat(TWO, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)


def test_a_broker_that_shuts_down_stays_in_sync_until_the_others_show_that_they_live() -> None:
    """Those that are silent may have lost power, and with it what only this broker has now."""
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=3)
    cluster.beat(THREE)
    before = cluster.topic("orders").partitions
    for _ in range(3):
        reply = cluster.beat(TWO, want_shut_down=True)
        assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    assert cluster.topic("orders").partitions == before, "Three is silent"
    cluster.fence(THREE)
    assert all(TWO in partition.isr for partition in cluster.topic("orders").partitions)
    cluster.shut_down(TWO)
    assert {part.isr for part in cluster.topic("orders").partitions} == {(ONE,)}


def test_a_broker_that_shuts_down_waits_for_the_controllers_own_broker_to_speak() -> None:
    """Its machine may have lost power: then the process of the controller is a new one."""
    cluster = Cluster(3, node_id="1")
    cluster.create("orders", replicas=3)
    cluster.elect()
    cluster.beat(THREE)
    cluster.beat(TWO, want_shut_down=True)
    cluster.beat(THREE)
    cluster.beat(TWO, want_shut_down=True)
    assert TWO in cluster.topic("orders").partitions[0].isr
    cluster.beat(ONE)
    cluster.beat(TWO, want_shut_down=True)
    assert TWO not in cluster.topic("orders").partitions[0].isr


def test_a_broker_that_shuts_down_does_not_rely_on_what_others_said_long_ago() -> None:
    cluster = Cluster(3, node_id="4")
    cluster.create("orders", replicas=3)
    cluster.elect()
    cluster.beat(TWO, want_shut_down=True)
    cluster.beat(THREE)
    cluster.now_ms = cluster.settings.broker_session_timeout_ms // 2
    cluster.beat(ONE)
    cluster.beat(TWO, want_shut_down=True)
    assert TWO in cluster.topic("orders").partitions[0].isr, "Three is silent again"
    cluster.beat(THREE)
    cluster.beat(TWO, want_shut_down=True)
    assert TWO not in cluster.topic("orders").partitions[0].isr


def test_the_last_broker_in_sync_stays_so_when_it_shuts_down_and_the_others_were_dead() -> None:
    cluster = Cluster(3, min_insync_replicas="2")
    cluster.create("orders", partitions=3, replicas=3)
    cluster.sessions = BrokerSessions(TWO, timeout_ms=9000)
    cluster.sessions.begin(cluster.image.brokers.values(), cluster.now_ms)
    cluster.beat(TWO, want_shut_down=True)
    cluster.beat(TWO, want_shut_down=True)
    for node_id in (ONE, THREE):
        cluster.fence(node_id)
        cluster.register(node_id, incarnation=1)  # it does not know what it was: it lost power
    cluster.shut_down(TWO)
    cluster.unfence(ONE)
    epoch = cluster.image.brokers[TWO].epoch
    cluster.register(TWO, incarnation=1, previous_broker_epoch=epoch)
    cluster.unfence(TWO)
    assert {part.leader for part in cluster.topic("orders").partitions} == {TWO}


def test_a_broker_that_shuts_down_leads_what_only_it_has_until_it_goes() -> None:
    cluster = Cluster(3)
    cluster.create("alone", partitions=3)
    led = list(cluster.state.led_by(TWO))
    assert len(led) == 1
    cluster.beat(TWO, want_shut_down=True)
    assert list(cluster.state.led_by(TWO)) == led
    cluster.shut_down(TWO)
    assert not list(cluster.state.led_by(TWO))
    epoch = cluster.image.brokers[TWO].epoch
    cluster.register(TWO, incarnation=1, previous_broker_epoch=epoch)
    cluster.unfence(TWO)
    assert list(cluster.state.led_by(TWO)) == led


def test_brokers_that_shut_down_together_do_not_wait_for_one_that_is_gone() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=3)
    cluster.beat(THREE)
    staying = [ONE, TWO]
    for node_id in staying:
        cluster.beat(node_id, want_shut_down=True)
    cluster.fence(THREE)
    for _ in range(4):
        staying = [
            node_id
            for node_id in staying
            if not cluster.beat(node_id, want_shut_down=True).should_shut_down
        ]
    assert not staying


def test_nobody_leaves_an_in_sync_set_to_one_that_shuts_down_too_and_is_silent() -> None:
    cluster = Cluster(3, min_insync_replicas="1")
    cluster.create("orders", partitions=3, replicas=3)
    for node_id in (ONE, TWO, THREE):
        cluster.beat(node_id, want_shut_down=True)
    for _ in range(4):  # nothing is heard of Two since Three wants to go: it may have lost power
        cluster.beat(ONE, want_shut_down=True)
        assert not cluster.beat(THREE, want_shut_down=True).should_shut_down
    assert all(THREE in part.isr for part in cluster.topic("orders").partitions)


def test_a_leader_that_shuts_down_leads_on_when_another_replica_is_fenced() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=3)
    cluster.beat(THREE)
    led = list(cluster.state.led_by(TWO))
    cluster.beat(TWO, want_shut_down=True)
    cluster.fence(THREE)
    assert led
    assert set(led) <= set(cluster.state.led_by(TWO))


def test_a_heartbeat_that_was_on_its_way_is_no_step_of_a_broker_that_shuts_down() -> None:
    cluster = Cluster(2)
    cluster.create("orders", partitions=2, replicas=2)
    cluster.beat(TWO, want_shut_down=True)
    count = len(cluster.records)
    assert not cluster.beat(TWO).should_shut_down
    assert len(cluster.records) == count


def test_a_new_controller_lets_a_broker_go_once_the_others_have_spoken_to_it() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=3, replicas=2)
    cluster.beat(TWO, want_shut_down=True)
    cluster.sessions = BrokerSessions(ONE, timeout_ms=9000)
    cluster.sessions.begin(cluster.image.brokers.values(), cluster.now_ms)
    assert not cluster.beat(TWO, want_shut_down=True).should_shut_down
    cluster.beat(ONE)
    assert not cluster.beat(TWO, want_shut_down=True).should_shut_down
    cluster.beat(THREE)
    assert not cluster.beat(TWO, want_shut_down=True).should_shut_down, "it hands over"
    cluster.beat(THREE)
    assert cluster.beat(TWO, want_shut_down=True).should_shut_down


def test_nobody_waits_for_the_broker_in_the_process_of_the_controller() -> None:
    """It may send no heartbeats at all: a quorum of one needs none of its own broker."""
    cluster = Cluster(2)
    assert cluster.settings.node_id == ONE
    cluster.create("orders", partitions=2, replicas=2)
    cluster.heartbeat_at(ONE, 0)
    for _ in ("marked", "handed over"):
        assert not cluster.beat(TWO, want_shut_down=True).should_shut_down
    assert cluster.beat(TWO, want_shut_down=True).should_shut_down


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    cluster = Cluster(2)
    reply = cluster.beat(TWO, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)


def test_a_broker_that_shuts_down_leaves_those_below_the_minimum_as_an_eligible_replica() -> None:
    cluster = Cluster(2, min_insync_replicas="2")
    cluster.create("orders", partitions=2, replicas=2)
    cluster.shut_down(TWO)
    for partition in cluster.topic("orders").partitions:
        assert (partition.leader, partition.isr, partition.elr) == (ONE, (ONE,), (TWO,))


def test_a_broker_that_was_told_to_shut_down_is_not_unfenced_any_more() -> None:
    cluster = Cluster(2)
    cluster.heartbeat(TWO, want_shut_down=True)
    count = len(cluster.records)
    reply = cluster.heartbeat(TWO)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    assert len(cluster.records) == count


def test_a_fenced_broker_may_shut_down_at_once() -> None:
    cluster = Cluster(2)
    cluster.fence(TWO)
    reply = cluster.heartbeat(TWO, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)


def test_the_only_broker_shuts_down_without_a_record() -> None:
    """Nobody is there to take over, and it comes back in the leader epochs that it had."""
    cluster = Cluster(1)
    cluster.create("orders", partitions=3)
    before = cluster.topic("orders").partitions
    count = len(cluster.records)
    reply = cluster.heartbeat(ONE, want_shut_down=True)
    assert reply.should_shut_down
    assert len(cluster.records) == count
    epoch = cluster.image.brokers[ONE].epoch
    cluster.register(ONE, incarnation=1, previous_broker_epoch=epoch)
    cluster.unfence(ONE)
    assert cluster.topic("orders").partitions == before


def test_the_only_broker_of_controllers_elsewhere_is_fenced_when_it_shuts_down() -> None:
    """Else a broker that joins while it is gone would see partitions given to it."""
    cluster = Cluster(0)
    cluster.register(TWO)
    cluster.unfence(TWO)
    reply = cluster.heartbeat(TWO, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    cluster.register(THREE)
    cluster.unfence(THREE)
    cluster.create("orders", partitions=4)
    assert {partition.leader for partition in cluster.topic("orders").partitions} == {THREE}


def test_a_broker_that_comes_back_after_its_shutdown_leads_again() -> None:
    cluster = Cluster(2)
    cluster.create("orders", partitions=2)
    stopped = cluster.image.brokers[TWO].epoch
    cluster.heartbeat(TWO, want_shut_down=True)
    cluster.register(TWO, incarnation=1, previous_broker_epoch=stopped)
    cluster.unfence(TWO)
    assert not cluster.image.brokers[TWO].in_controlled_shutdown
    led = [part for part in cluster.topic("orders").partitions if part.leader == TWO]
    assert [part.leader_epoch for part in led] == [2]


@pytest.mark.parametrize(
    ("node_id", "epoch", "code"),
    [
        (7, 0, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (1, 10**6, ErrorCode.STALE_BROKER_EPOCH),
        (1, -1, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_a_heartbeat_of_another_process_is_refused(
    node_id: int, epoch: int, code: ErrorCode
) -> None:
    cluster = Cluster(1)
    with pytest.raises(RequestError) as error:
        cluster.ask(
            BrokerHeartbeatRequest(
                broker_id=node_id, broker_epoch=epoch, current_metadata_offset=10**6
            )
        )
    assert error.value.code == code
