"""What settings make of a node in its cluster, and which of them cannot work together."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import ClusterNode, Role, cluster_node
from penstock.model.settings.listener import HostPort, SecurityProtocol
from penstock.model.settings.setting import InvalidSetting

# The three kinds of node, as three machines would have them.
BOTH = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
}
CONTROLLER = {
    **BOTH,
    "process.roles": "controller",
    "node.id": "2",
    "listeners": "CONTROLLER://:9093",
}
BROKER = {
    **BOTH,
    "process.roles": "broker",
    "node.id": "7",
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://d:19092",
}


def node(given: dict[str, str]) -> ClusterNode:
    settings = parse_broker(given)
    return cluster_node(settings, settings.node_id)


def without(given: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in names}


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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (without(BOTH, "node.id"), r"Missing configuration node\.id"),
        (without(BOTH, "controller.listener.names"), r"Missing .* controller\.listener\.names"),
        (
            without(BOTH, "controller.quorum.voters"),
            r"Missing configuration controller\.quorum\.voters: .* or "
            r"controller\.quorum\.bootstrap\.servers",
        ),
        (without(BOTH, "process.roles"), r"Missing configuration process\.roles: .* other nodes"),
        (
            {"controller.quorum.bootstrap.servers": "a:1"},
            r"Missing configuration process\.roles: controller\.quorum\.bootstrap",
        ),
        ({**BOTH, "node.id": "4"}, "Node 4 has the role controller and must be .* add 4@HOST:PORT"),
        ({**BROKER, "node.id": "3"}, "Node 3 must not be among the voters"),
        (
            {**BOTH, "listeners": "PLAINTEXT://a:9092"},
            "CONTROLLER of controller.listener.names is missing.* add CONTROLLER://HOST:PORT",
        ),
        ({**BOTH, "controller.listener.names": "CONTROLLER,C2"}, "C2 of controller.listener.names"),
        (
            {**BROKER, "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
            "CONTROLLER is a listener of controllers",
        ),
        (
            {
                **BROKER,
                "advertised.listeners": "PLAINTEXT://d:9092,CONTROLLER://d:9093",
            },
            "CONTROLLER must be one of listeners",
        ),
        (
            {**CONTROLLER, "listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"},
            "PLAINTEXT is no listener of controllers",
        ),
        (
            {**BOTH, "listeners": "CONTROLLER://:9093"},
            "A broker needs a listener that controller.listener.names leaves out",
        ),
        (
            {**BOTH, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "CONTROLLER of .* is missing: add CONTROLLER:PLAINTEXT",
        ),
        (
            {**BROKER, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "CONTROLLER of .* is missing: add CONTROLLER:PLAINTEXT",
        ),
        (
            {**BOTH, "listeners": "PLAINTEXT://a:9092,SSL://a:9094,CONTROLLER://a:9093"},
            r"Missing configuration listener\.security\.protocol\.map: CONTROLLER",
        ),
        (
            {**BOTH, "inter.broker.listener.name": "CONTROLLER"},
            "a listener of brokers that is advertised; these are PLAINTEXT",
        ),
        (
            {
                **BOTH,
                "listeners": "PLAINTEXT://a:9092,IN://a:9094,CONTROLLER://a:9093",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,"
                "CONTROLLER:PLAINTEXT",
                "advertised.listeners": "PLAINTEXT://a:9092",
                "inter.broker.listener.name": "IN",
            },
            "a listener of brokers that is advertised; these are PLAINTEXT",
        ),
        (
            {
                **BOTH,
                "listeners": "IN://a:9094,CONTROLLER://a:9093",
                "listener.security.protocol.map": "IN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            },
            r"Missing configuration inter\.broker\.listener\.name: .* over PLAINTEXT.*: IN",
        ),
        (
            {
                **BOTH,
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "Only one of it and inter.broker.listener.name",
        ),
        (
            {**BROKER, "broker.heartbeat.interval.ms": "9000"},
            "must be less than broker.session.timeout.ms",
        ),
        (
            {**BROKER, "broker.session.timeout.ms": "2000"},
            r"2000 for configuration broker\.session\.timeout\.ms: Heartbeats every 2000 ms",
        ),
    ],
)
def test_settings_that_cannot_work_together_are_refused(
    given: dict[str, str], expected: str
) -> None:
    with pytest.raises(InvalidSetting, match=expected):
        node(given)
