"""What a cluster shows to a client, as one value. What could not be seen says why."""

from collections.abc import Mapping
from dataclasses import field
from typing import TypeVar, Union

from penstock.client.admin.admin import LogDirectory
from penstock.client.admin.group_lag import PartitionLag
from penstock.client.admin.hanging_transactions import Suspect
from penstock.client.admin.last_batches import LogRange, StoredBatch
from penstock.client.admin.transaction_listing import TransactionDescription
from penstock.client.network.routing import BrokerView, TopicView
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.listener import SecurityProtocol
from penstock.model.topic_name import is_of_the_system
from penstock.planning.partitions import PARTITION_MB_DEFAULT
from penstock.planning.spread import REPLICAS_PER_BROKER_MAX
from penstock.security.acl.entry import Acl

Value = TypeVar("Value")

LAG_MS_MAX = 5 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Could not be asked, or was not answered."""

    reason: str


Seen = Union[Value, Unseen]  # noqa: UP007  # an alias with a parameter
Settings = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    group_id: str
    state: str
    member_topics: tuple[tuple[str, ...], ...]  # of each member, the topics it subscribes to
    lag: Seen[tuple[PartitionLag, ...]]
    # Partitions of which it is not known how old the first unread record is.
    unread: tuple[TopicPartition, ...] = ()

    @property
    def members(self) -> int:
        return len(self.member_topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsSeen:
    is_enabled: bool  # False: there is no authorizer
    entries: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSeen:
    """The clock of a node, against the one of this machine."""

    node_id: NodeId
    ahead_ms: int
    within_ms: int  # how exactly that is known: half of the time that the answer took


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorsSeen:
    """Of one node: files and connections that are open, and as many as may be."""

    open: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyAcks:
    """Of one topic on one node: batches that were written without acks of all."""

    before: int  # since the node started
    meanwhile: int  # between two looks, some seconds apart
    records: int = 0  # written between these, with any acks


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    at_ms: int  # by the clock of this machine
    protocol: SecurityProtocol  # of this client's connections
    brokers: Mapping[NodeId, BrokerView]
    topics: Mapping[str, TopicView]
    down: tuple[NodeId, ...] = ()  # registered, or holding replicas, and not to be reached
    topic_settings: Seen[Mapping[str, Settings]] = field(default_factory=dict)
    broker_settings: Mapping[NodeId, Seen[Settings]] = field(default_factory=dict)
    directories: Mapping[NodeId, Seen[tuple[LogDirectory, ...]]] = field(default_factory=dict)
    descriptors: Mapping[NodeId, Seen[DescriptorsSeen]] = field(default_factory=dict)
    early_acks: Mapping[NodeId, Seen[Mapping[str, EarlyAcks]]] = field(default_factory=dict)
    acks_watched_ms: int = 0  # so far apart are the two looks
    logs: Seen[Mapping[TopicPartition, LogRange]] = field(default_factory=dict)
    batches: Seen[Mapping[TopicPartition, tuple[StoredBatch, ...]]] = field(default_factory=dict)
    groups: Seen[tuple[GroupSeen, ...]] = ()
    acls: Seen[AclsSeen] = AclsSeen(is_enabled=True)
    transactions: Seen[tuple[TransactionDescription, ...]] = ()
    hanging: Seen[tuple[Suspect, ...]] = ()
    clock: Seen[ClockSeen] = Unseen(reason="it was not asked")  # of the active controller
    clocks: Mapping[NodeId, Seen[ClockSeen]] = field(default_factory=dict)  # of brokers

    def running(self) -> list[NodeId]:
        """The brokers that can be reached, in order."""
        return sorted(node for node in self.brokers if node not in self.down)

    def own_topics(self) -> list[TopicView]:
        """Those of users, by name."""
        return [
            topic
            for _, topic in sorted(self.topics.items())
            if not topic.internal and not is_of_the_system(topic.name)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What each of some topics is planned to carry."""

    throughput_mb: float
    partition_mb: float = PARTITION_MB_DEFAULT
    consumers: int = 0
    topics: tuple[str, ...] = ()  # without any: those of users, but for dead letters


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is too much, where that is a matter of taste."""

    lag_ms_max: int = LAG_MS_MAX
    transaction_ms_max: int = 15 * 60_000
    replicas_per_broker_max: int = REPLICAS_PER_BROKER_MAX
    disk_free_percent_min: int = 20
    load: Load | None = None
