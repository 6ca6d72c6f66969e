"""What a handler is given: the parts of the node it may use, and where the request came from."""

from collections.abc import Mapping

from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.controller.quorum_driver import QuorumDriver
from penstock.broker.coordinators.group_coordinator import GroupCoordinator
from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.partitions.partitions import Partitions
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.broker import BrokerSettings
from penstock.replication.fetch_session import FetchSessions
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.header import RequestHeader
from penstock.world.ports import Address, World


@dataclass(slots=True, kw_only=True)
class Services:
    """One per node, shared by all connections."""

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
    quorum: QuorumDriver | None = None  # of a node that has the metadata log's replica open


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """Where a request came from and when."""

    header: RequestHeader
    listener: str
    peer: Address
    received_ms: int  # on the monotonic clock
