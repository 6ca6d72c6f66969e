"""What settings make of a node in its cluster, and which of them cannot work together."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import ClusterNode, Role, cluster_node
from penstock.model.settings.listener import HostPort, SecurityProtocol
from penstock.model.settings.setting import InvalidSetting
from rig.cluster_settings import ACCEPTED, BOTH, BROKER, CONTROLLER, REFUSED, without


def node(given: dict[str, str]) -> ClusterNode:
    settings = parse_broker(given)
    return cluster_node(settings, settings.node_id)


def test_a_node_of_both_roles_has_listeners_of_both() -> None:
    both = node(BOTH)
    assert both.roles == {Role.BROKER, Role.CONTROLLER}
    assert [listener.name for listener in both.listeners_of(Role.BROKER)] == ["PLAINTEXT"]
    assert [listener.name for listener in both.listeners_of(Role.CONTROLLER)] == ["CONTROLLER"]
    assert both.inter_broker_listener == "PLAINTEXT"
    assert both.quorum.listener == "CONTROLLER"
    assert dict(both.quorum.static_voters) == {
        NodeId(1): HostPort(host="a", port=9093),
        NodeId(2): HostPort(host="b", port=9093),
        NodeId(3): HostPort(host="c", port=9093),
    }
    assert not both.is_only_voter
    assert not both.has_dynamic_voters


def test_a_controller_on_every_interface_is_known_by_its_address_among_the_voters() -> None:
    (listener,) = node(CONTROLLER).listeners.values()
    assert (listener.host, listener.port) == ("", 9093)
    assert listener.advertised == HostPort(host="b", port=9093)
    assert node(CONTROLLER).inter_broker_listener is None


def test_a_broker_reaches_controllers_over_a_listener_that_it_does_not_have() -> None:
    broker = node({**BROKER, "broker.rack": "r1", "broker.session.timeout.ms": "4000"})
    (listener,) = broker.listeners.values()
    assert listener.advertised == HostPort(host="d", port=19092)
    assert listener.security_protocol is SecurityProtocol.PLAINTEXT
    assert broker.quorum.listener == "CONTROLLER"
    assert (broker.is_broker, broker.is_controller) == (True, False)
    assert (broker.rack, broker.session_timeout_ms) == ("r1", 4000)


def test_times_are_kafkas() -> None:
    times = node(BOTH).quorum.times
    assert times.append_linger_ms == 25
    assert times.election_backoff_max_ms == 1000
    assert times.election_timeout_ms == 1000
    assert times.fetch_timeout_ms == 2000
    assert times.request_timeout_ms == 2000
    assert times.retry_backoff_ms == 20
    assert node(BOTH).heartbeat_interval_ms == 2000
    assert node(BOTH).session_timeout_ms == 9000
    assert node(BOTH).registration_timeout_ms == 60_000


def test_voters_are_in_the_log_where_only_bootstrap_servers_are_given() -> None:
    given = without(BOTH, "controller.quorum.voters")
    dynamic = node({**given, "controller.quorum.bootstrap.servers": "a:9093,[::1]:9094"})
    assert dynamic.has_dynamic_voters
    assert not dynamic.is_only_voter
    assert list(map(str, dynamic.quorum.bootstrap_servers)) == ["a:9093", "[::1]:9094"]


def test_a_node_without_roles_is_its_own_cluster() -> None:
    alone = node({})
    assert alone.roles == {Role.BROKER, Role.CONTROLLER}
    assert alone.is_only_voter
    assert alone.inter_broker_listener == "PLAINTEXT"
    assert node({"controller.quorum.voters": "1@a:9093"}).is_only_voter
    named = {"listeners": "IN://h:1", "listener.security.protocol.map": "IN:PLAINTEXT"}
    assert node(named).inter_broker_listener == "IN"


def test_a_node_that_is_the_only_voter_listed_is_the_only_voter() -> None:
    assert node({**BOTH, "controller.quorum.voters": "1@a:9093"}).is_only_voter


@pytest.mark.parametrize("given", ACCEPTED)
def test_settings_that_work_are_accepted(given: dict[str, str]) -> None:
    assert node(given).roles


@pytest.mark.parametrize(("given", "expected"), REFUSED)
def test_settings_that_cannot_work_together_are_refused(
    given: dict[str, str], expected: str
) -> None:
    with pytest.raises(InvalidSetting, match=expected):
        node(given)
