"""Requests of brokers keep their sessions with the controller, from registration to shutdown."""

from penstock.metadata.controller.broker_sessions import GoneBy
from penstock.metadata.controller.contact import note_contact
from penstock.metadata.controller.decide import ControllerReply, ControllerRequest
from penstock.metadata.controller.fencing import FenceBrokers, GoneBroker
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.cluster import Cluster

ONE, TWO = NodeId(1), NodeId(2)
TIMEOUT_MS = 9000


class Controlled:
    """A cluster of two brokers whose controller, on the first, notes every contact."""

    def __init__(self) -> None:
        self.cluster = Cluster(0)
        for node_id in (ONE, TWO):
            self.ask(self.cluster.registration(node_id), node_id)
            self.heartbeat(node_id)

    def ask(self, request: ControllerRequest, sender: NodeId = ONE) -> ControllerReply:
        count = len(self.cluster.records)
        reply = self.cluster.ask(request)
        note_contact(
            self.cluster.sessions,
            request,
            reply,
            connection=None if sender == ONE else f"from {sender}",
            last_offset=len(self.cluster.records) - 1,
            has_records=len(self.cluster.records) > count,
            now_ms=self.cluster.now_ms,
        )
        self.cluster.sessions.check()
        return reply

    def heartbeat(self, node_id: NodeId, *, want_shut_down: bool = False) -> None:
        self.ask(
            BrokerHeartbeatRequest(
                broker_id=node_id,
                broker_epoch=self.epoch(node_id),
                current_metadata_offset=len(self.cluster.records),
                want_shut_down=want_shut_down,
            ),
            node_id,
        )

    def fence(self, node_id: NodeId) -> None:
        gone = GoneBroker(node_id=node_id, broker_epoch=self.epoch(node_id), by=GoneBy.CONNECTION)
        self.ask(FenceBrokers(gone=(gone,)))

    def epoch(self, node_id: NodeId) -> int:
        return self.cluster.image.brokers[node_id].epoch

    def is_alive(self, node_id: NodeId) -> bool:
        return self.cluster.sessions.is_alive(node_id, self.cluster.now_ms)


def test_a_broker_lives_while_its_heartbeats_come() -> None:
    controlled = Controlled()
    controlled.cluster.now_ms = TIMEOUT_MS - 1
    controlled.heartbeat(TWO)
    controlled.cluster.now_ms += TIMEOUT_MS - 1
    assert controlled.is_alive(TWO)
    controlled.cluster.now_ms += 1
    assert not controlled.is_alive(TWO)
    assert controlled.cluster.sessions.expired(controlled.cluster.now_ms) == (TWO,)


def test_a_broker_that_was_fenced_lives_again_with_its_next_heartbeat() -> None:
    controlled = Controlled()
    controlled.fence(TWO)
    assert not controlled.is_alive(TWO)
    controlled.heartbeat(TWO)
    assert controlled.is_alive(TWO)
    assert not controlled.cluster.image.brokers[TWO].fenced


def test_a_broker_that_may_shut_down_has_no_session_any_more() -> None:
    controlled = Controlled()
    controlled.heartbeat(TWO, want_shut_down=True)
    assert not controlled.is_alive(TWO)
    assert controlled.cluster.sessions.next_deadline_ms() is None


def test_a_broker_that_was_forgotten_has_no_session_any_more() -> None:
    controlled = Controlled()
    controlled.ask(UnregisterBrokerRequest(broker_id=TWO))
    assert not controlled.is_alive(TWO)


def test_a_restarted_broker_is_fenced_by_refusal_and_taken_back() -> None:
    """A whole life: killed, found dead by its connection, started again at another port."""
    controlled = Controlled()
    cluster = controlled.cluster
    cluster.create("orders", partitions=2)
    dead = cluster.sessions.connection_lost("from 2")
    assert dead == TWO
    assert cluster.sessions.refused(TWO, epoch=controlled.epoch(TWO), now_ms=1)
    controlled.fence(TWO)
    assert {part.leader for part in cluster.topic("orders").partitions} == {ONE, None}
    controlled.ask(cluster.registration(TWO, incarnation=1, port=1234), TWO)
    controlled.heartbeat(TWO)
    assert {part.leader for part in cluster.topic("orders").partitions} == {ONE, TWO}
    assert controlled.is_alive(TWO)
