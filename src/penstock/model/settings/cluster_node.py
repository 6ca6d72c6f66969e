"""What a node is in its cluster: its roles, its listeners, the quorum, and the times they keep.

`cluster_node` reads them from the settings, once. It refuses what cannot work with one line, by the
rules of Apache Kafka:

    process.roles   controller.quorum.voters      controller.listener.names
    controller      this node is one of them      all in listeners, and nothing else is
    broker          this node is none of them     none in listeners; the first leads to controllers
    both            this node is one of them      all in listeners, beside those of the broker

Static voters are in `controller.quorum.voters`; where only `controller.quorum.bootstrap.servers` is
given, the voters are in the metadata log (`kraft.version` 1). Without `process.roles` a node is a
cluster of its own: broker, controller and the only voter.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NoReturn

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.broker import CONTROLLER_LISTENER_NEEDED, BrokerSettings
from penstock.model.settings.listener import (
    ANY_HOSTS,
    HostPort,
    ListenAddress,
    SecurityProtocol,
    Voter,
)
from penstock.model.settings.setting import InvalidSetting, MissingSetting


class Role(Enum):
    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeListener:
    """One of `listeners`, of the role that it serves."""

    name: str
    role: Role
    host: str  # "" is every interface
    port: int  # 0 is any that is free
    advertised: HostPort | None  # what other nodes and clients are told; None: where it listens
    security_protocol: SecurityProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTimes:
    """The settings `controller.quorum.*.ms`."""

    append_linger_ms: int
    election_backoff_max_ms: int
    election_timeout_ms: int
    fetch_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Who votes on metadata, and how the quorum is reached."""

    static_voters: Mapping[NodeId, HostPort]  # none: they are in the log, or the node is alone
    bootstrap_servers: tuple[HostPort, ...]
    listener: str | None  # by which controllers are reached; None: the node is alone
    listener_protocol: SecurityProtocol
    times: QuorumTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """One node of a cluster; `cluster_node` makes it."""

    node_id: NodeId
    roles: frozenset[Role]
    rack: str | None
    listeners: Mapping[str, NodeListener]  # by name, in the order of the settings
    inter_broker_listener: str | None  # None: the node is no broker
    quorum: QuorumConfig
    heartbeat_interval_ms: int
    session_timeout_ms: int
    registration_timeout_ms: int

    @property
    def is_broker(self) -> bool:
        return Role.BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return Role.CONTROLLER in self.roles

    @property
    def is_only_voter(self) -> bool:
        """Whether the settings alone say that no other node votes."""
        if not self.quorum.static_voters:
            return not self.quorum.bootstrap_servers
        return self.quorum.static_voters.keys() == {self.node_id}

    @property
    def has_dynamic_voters(self) -> bool:
        """Whether the voters are those that the metadata log names: `kraft.version` 1."""
        return not self.quorum.static_voters and bool(self.quorum.bootstrap_servers)

    @property
    def listeners_to_others(self) -> tuple[str, ...]:
        """The listeners by which this node reaches others: of brokers, and of controllers."""
        named = (self.inter_broker_listener, self.quorum.listener)
        if self.quorum.listener is None:  # it is alone
            return ()
        return tuple(name for name in named if name is not None)

    def listeners_of(self, role: Role) -> tuple[NodeListener, ...]:
        return tuple(one for one in self.listeners.values() if one.role is role)


def cluster_node(settings: BrokerSettings, node_id: NodeId) -> ClusterNode:
    """What these settings make of a node; InvalidSetting for the first that cannot work."""
    if "process.roles" in settings.given:
        _check_required(settings)
        _check_roles(settings, node_id)
        _check_controller_protocols(settings)
    else:
        _check_alone(settings, node_id)
    _check_times(settings)
    inter_broker_listener = _inter_broker_listener(settings)
    names = settings.controller_listener_names
    listener = names[0] if names else None
    return ClusterNode(
        node_id=node_id,
        roles=frozenset(Role(role) for role in settings.process_roles),
        rack=settings.broker_rack,
        listeners=MappingProxyType(
            {
                address.listener: _listener(address, settings, node_id)
                for address in settings.listeners
            }
        ),
        inter_broker_listener=inter_broker_listener,
        quorum=QuorumConfig(
            static_voters=MappingProxyType(
                {
                    voter.node_id: HostPort(host=voter.host, port=voter.port)
                    for voter in settings.controller_quorum_voters
                }
            ),
            bootstrap_servers=settings.controller_quorum_bootstrap_servers,
            listener=listener,
            listener_protocol=SecurityProtocol.PLAINTEXT
            if listener is None
            else settings.protocol_of(listener),
            times=QuorumTimes(
                append_linger_ms=settings.controller_quorum_append_linger_ms,
                election_backoff_max_ms=settings.controller_quorum_election_backoff_max_ms,
                election_timeout_ms=settings.controller_quorum_election_timeout_ms,
                fetch_timeout_ms=settings.controller_quorum_fetch_timeout_ms,
                request_timeout_ms=settings.controller_quorum_request_timeout_ms,
                retry_backoff_ms=settings.controller_quorum_retry_backoff_ms,
            ),
        ),
        heartbeat_interval_ms=settings.broker_heartbeat_interval_ms,
        session_timeout_ms=settings.broker_session_timeout_ms,
        registration_timeout_ms=settings.initial_broker_registration_timeout_ms,
    )


def _check_alone(settings: BrokerSettings, node_id: NodeId) -> None:
    """Without roles a node is its own cluster: what names other nodes must not be ignored."""
    named = {voter.node_id for voter in settings.controller_quorum_voters}
    if named - {node_id}:
        raise MissingSetting(
            "process.roles",
            "controller.quorum.voters names other nodes; set broker, controller or"
            " broker,controller",
        )
    if settings.controller_quorum_bootstrap_servers:
        raise MissingSetting(
            "process.roles",
            "controller.quorum.bootstrap.servers is given; set broker, controller or"
            " broker,controller",
        )


def _check_required(settings: BrokerSettings) -> None:
    given = settings.given
    if "node.id" not in given and given.get("broker.id", "-1") == "-1":
        raise MissingSetting(
            "node.id", "process.roles needs it, and no other node may have the same"
        )
    if not settings.controller_listener_names:
        raise MissingSetting("controller.listener.names", CONTROLLER_LISTENER_NEEDED)
    if not settings.controller_quorum_voters and not settings.controller_quorum_bootstrap_servers:
        raise MissingSetting(
            "controller.quorum.voters",
            "process.roles needs it, as id@host:port of each controller, or"
            " controller.quorum.bootstrap.servers as host:port",
        )


def _check_roles(settings: BrokerSettings, node_id: NodeId) -> None:
    listening = {address.listener for address in settings.listeners}
    voters = settings.controller_quorum_voters
    is_voter = any(voter.node_id == node_id for voter in voters)
    if "controller" not in settings.process_roles:
        if is_voter:
            _refuse(
                settings,
                "controller.quorum.voters",
                f"Node {node_id} must not be among the voters with process.roles=broker:"
                " add controller to its roles, or take it out of the voters",
            )
        both = [name for name in settings.controller_listener_names if name in listening]
        if both:
            _refuse(
                settings,
                "listeners",
                f"{both[0]} is a listener of controllers (controller.listener.names), which a node"
                " with process.roles=broker does not have: remove it",
            )
        return
    if voters and not is_voter:
        _refuse(
            settings,
            "controller.quorum.voters",
            f"Node {node_id} has the role controller and must be among the voters:"
            f" add {node_id}@HOST:PORT, or take controller out of process.roles",
        )
    for name in settings.controller_listener_names:
        if name not in listening:
            _refuse(
                settings,
                "listeners",
                f"{name} of controller.listener.names is missing, which the role controller needs:"
                f" add {name}://HOST:PORT",
            )
    if "broker" not in settings.process_roles and settings.client_listeners:
        _refuse(
            settings,
            "listeners",
            f"{settings.client_listeners[0].listener} is no listener of controllers"
            " (controller.listener.names), and process.roles=controller has no others: remove it",
        )


def _check_controller_protocols(settings: BrokerSettings) -> None:
    """A controller's listener that the map leaves out is plaintext only where everything is."""
    protocols = settings.listener_security_protocol_map
    explicit = "listener.security.protocol.map" in settings.given or any(
        settings.protocol_of(address.listener) != SecurityProtocol.PLAINTEXT
        for address in settings.listeners
    )
    for name in settings.controller_listener_names:
        if explicit and name not in protocols:
            _refuse(
                settings,
                "listener.security.protocol.map",
                f"{name} of controller.listener.names is missing: add {name}:PLAINTEXT",
            )


def _check_times(settings: BrokerSettings) -> None:
    if settings.broker_heartbeat_interval_ms >= settings.broker_session_timeout_ms:
        # Apache Kafka accepts it, and fences every broker again and again.
        _refuse(
            settings,
            "broker.heartbeat.interval.ms"
            if "broker.heartbeat.interval.ms" in settings.given
            else "broker.session.timeout.ms",
            f"Heartbeats every {settings.broker_heartbeat_interval_ms} ms do not keep a session of"
            f" {settings.broker_session_timeout_ms} ms: broker.heartbeat.interval.ms must be less"
            " than broker.session.timeout.ms",
        )


def _inter_broker_listener(settings: BrokerSettings) -> str | None:
    """The listener over which brokers reach this one; None for a node that is no broker."""
    given = settings.given
    named = settings.inter_broker_listener_name
    if named is not None and "security.inter.broker.protocol" in given:
        _refuse(
            settings,
            "security.inter.broker.protocol",
            "Only one of it and inter.broker.listener.name may be given",
        )
    if "broker" not in settings.process_roles:
        return None
    advertised = [address.listener for address in settings.client_listeners]
    if settings.advertised_listeners is not None:
        told = {address.listener for address in settings.advertised_listeners}
        advertised = [listener for listener in advertised if listener in told]
    wanted = named or settings.security_inter_broker_protocol
    if wanted in advertised:
        return wanted
    if "process.roles" not in given:
        return settings.client_listeners[0].listener
    options = ", ".join(advertised) or "none"
    expected = f"It must name a listener of brokers that is advertised; these are {options}"
    if named is not None:
        _refuse(settings, "inter.broker.listener.name", expected)
    raise MissingSetting(
        "inter.broker.listener.name",
        f"brokers would reach each other over {wanted}, which is not advertised;"
        f" name one that is: {options}",
    )


def _listener(address: ListenAddress, settings: BrokerSettings, node_id: NodeId) -> NodeListener:
    name = address.listener
    is_controllers = name in settings.controller_listener_names
    told: ListenAddress | Voter | None = next(
        (one for one in settings.advertised_listeners or () if one.listener == name), None
    )
    if told is None and is_controllers and address.host in ANY_HOSTS:
        # The other voters know this node by that address.
        voters = settings.controller_quorum_voters
        told = next((voter for voter in voters if voter.node_id == node_id), None)
    return NodeListener(
        name=name,
        role=Role.CONTROLLER if is_controllers else Role.BROKER,
        host=address.host,
        port=address.port,
        advertised=None if told is None else HostPort(host=told.host, port=told.port),
        security_protocol=settings.protocol_of(name),
    )


def _refuse(settings: BrokerSettings, name: str, expected: str) -> NoReturn:
    value = settings.given.get(name)
    if value is None:
        raise MissingSetting(name, expected)
    raise InvalidSetting(name=name, value=value, expected=expected)
