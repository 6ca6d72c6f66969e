"""What a handler is given: the parts of the node it may use.

Services             on the listeners of brokers
ControllerServices   on the listeners of controllers
NodeServices         what both have: for handlers that serve both
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.controller.quorum_driver import QuorumDriver
from penstock.broker.coordinators.group_coordinator import GroupCoordinator
from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.coordinators.verified_turns import VerifiedTurns
from penstock.broker.partitions.directory_moves import DirectoryMoves
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.request.listed_brokers import ListedBrokers
from penstock.broker.request.request_stats import RequestStats
from penstock.broker.request.yielding import LongAnswers
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.broker import BrokerSettings
from penstock.replication.fetch_session import FetchSessions
from penstock.replication.follower_session import FollowerSessions
from penstock.replication.partition import Partition
from penstock.replication.throttle import ReplicationThrottle
from penstock.security.acl.authorizer import Authorizer
from penstock.wire.api import ApiKey, VersionRange
from penstock.world.ports import World

if TYPE_CHECKING:  # nothing of it is loaded by a node without metrics, or without traces
    from penstock.broker.request.request_tracing import RequestTracing
    from penstock.metrics.telemetry.client_telemetry import ClientTelemetry


class WantedInSyncChanges(Protocol):
    """Where it is noted that the in-sync set of a partition that is led here should change. See
    `broker/replication/in_sync_changes`, which a node that is a cluster of its own does not import.
    """

    def want(self, partition: Partition) -> None:
        """The partition may have a change to ask the controller for."""


class LostNodes(Protocol):
    """See `broker/replication/replicating`."""

    def is_lost(self, node_id: NodeId) -> bool:
        """Whether the process of another node has probably ended, and the metadata does not say so
        yet.
        """


class NodeServices(Protocol):
    """What a node of any role has."""

    request_stats: RequestStats | None

    @property
    def node_id(self) -> NodeId: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def settings(self) -> BrokerSettings: ...
    @property
    def world(self) -> World: ...
    @property
    def image(self) -> Image: ...
    @property
    def controller(self) -> ControllerLink: ...
    @property
    def served(self) -> Mapping[ApiKey, VersionRange]: ...
    @property
    def quorum(self) -> QuorumDriver: ...
    @property
    def authorizer(self) -> Authorizer | None: ...
    @property
    def telemetry(self) -> "ClientTelemetry | None": ...
    @property
    def long_answers(self) -> LongAnswers: ...


@dataclass(slots=True, kw_only=True)
class ControllerServices:
    """One per controller. Requests are decided here, or refused while another one is active."""

    node_id: NodeId
    cluster_id: str
    settings: BrokerSettings
    world: World
    local: LocalController
    served: Mapping[ApiKey, VersionRange]
    authorizer: Authorizer | None = None
    request_stats: RequestStats | None = None  # None: no metrics, alerts or traces
    long_answers: LongAnswers = field(default_factory=LongAnswers)

    @property
    def image(self) -> Image:
        return self.local.image

    @property
    def telemetry(self) -> "ClientTelemetry | None":
        return None  # clients push to brokers

    @property
    def controller(self) -> ControllerLink:
        return self.local

    @property
    def quorum(self) -> QuorumDriver:
        return self.local.quorum


@dataclass(slots=True, kw_only=True)
class Services:
    """One per broker, shared by all connections."""

    node_id: NodeId
    cluster_id: str
    settings: BrokerSettings
    world: World
    image: Image  # replaced whole at each metadata change: read it afresh after each await
    endpoints: tuple[Endpoint, ...]  # as advertised to clients, by listener name
    controller: ControllerLink
    partitions: Partitions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    served: Mapping[
        ApiKey, VersionRange
    ]  # what ApiVersions tells: taken from the table of handlers
    local: LocalController  # this node's replica of the metadata
    directory_moves: DirectoryMoves
    in_sync_changes: WantedInSyncChanges | None = None  # None: there are no other brokers
    lost_nodes: LostNodes | None = None  # the same
    leader_throttle: ReplicationThrottle = field(default_factory=ReplicationThrottle)
    follower_sessions: FollowerSessions = field(default_factory=FollowerSessions)
    verified_turns: VerifiedTurns = field(default_factory=VerifiedTurns)
    listed_brokers: ListedBrokers = field(default_factory=ListedBrokers)
    authorizer: Authorizer | None = None  # None: everyone may do all
    request_stats: RequestStats | None = None  # None: no metrics, alerts or traces
    telemetry: "ClientTelemetry | None" = None  # None: no metrics of clients are shown here
    tracing: "RequestTracing | None" = None  # None: no traces are exported
    long_answers: LongAnswers = field(default_factory=LongAnswers)
    # Apart, so that consumers go on reading while others ask for much.
    long_fetches: LongAnswers = field(default_factory=LongAnswers)

    @property
    def quorum(self) -> QuorumDriver:
        return self.local.quorum


def telemetry_of(services: Services) -> "ClientTelemetry":
    if services.telemetry is None:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, "This broker shows no metrics.")
    return services.telemetry


def check_security_enabled(services: NodeServices) -> None:
    """RequestError where there are no access control entries, since nobody would heed them."""
    if services.authorizer is None:
        raise RequestError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
