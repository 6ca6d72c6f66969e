"""The cluster as the controller knows it: every journalled record, committed or not.

Unlike the image that brokers read it changes in place, and it has the indexes that decisions need,
so a decision costs what it changes. The host applies records to it; only `apply` changes it.

Invariants:
1. Both views of topics hold the same ones, and each topic has its collision key.
2. `led` and `replicated` hold exactly the partitions that name the broker as leader or replica;
   those without leader are in `led` under None.
3. `racks` holds exactly the registered brokers.
4. Topics with settings exist, and no settings are empty.
5. `imbalanced` holds exactly the partitions that another replica leads than the preferred one,
   `with_elr` those that have eligible leader replicas or a last known leader, and `reassigned`
   those of which a reassignment runs.
6. `acls` and `acl_ids` hold the same access control entries, each entry once.
7. `token_ids` knows exactly the tokens of `delegation_tokens`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple, TypeVar, assert_never

from penstock.metadata.image.acls import acl_of
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.changes import (
    broker_of,
    changed_broker,
    changed_partition,
    controller_of,
    fenced_broker,
    partition_of,
    without_elr,
)
from penstock.metadata.image.controller import ControllerImage
from penstock.metadata.image.delegation_tokens import token_of
from penstock.metadata.image.image import NO_CONFIG, ConfigResource
from penstock.metadata.image.scram import ScramUser, credential_in, user_of
from penstock.metadata.image.topic import PartitionImage
from penstock.metadata.records import MetadataRecord
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.topic_name import collision_key
from penstock.security.acl.entry import Acl, AclId
from penstock.security.delegation_token import DelegationToken, TokenIds
from penstock.security.sasl.scram_credential import ScramCredential
from penstock.wire.messages.metadata_records.access_control import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from penstock.wire.messages.metadata_records.broker import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.controller import RegisterControllerRecord
from penstock.wire.messages.metadata_records.delegation_token import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.no_op import NoOpRecord
from penstock.wire.messages.metadata_records.partition import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
)
from penstock.wire.messages.metadata_records.producer_ids import ProducerIdsRecord
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord, TopicRecord
from penstock.wire.messages.metadata_records.user_scram_credential import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


class Place(NamedTuple):
    """One partition, by the id of its topic."""

    topic_id: TopicId
    partition: int


Owner = TypeVar("Owner", bound=NodeId | None)

# A set that keeps the order in which its members came: a replay must not depend on hashes.
Places = dict[Place, None]


@dataclass(slots=True)
class TopicState:
    """One topic; `partitions[n]` is partition n."""

    name: str
    topic_id: TopicId
    partitions: list[PartitionImage] = field(default_factory=list)


class ControllerState:
    """See the module's invariants. Decisions read the attributes and change nothing."""

    def __init__(self) -> None:
        self.brokers: dict[NodeId, BrokerImage] = {}
        self.controllers: dict[NodeId, ControllerImage] = {}
        self.racks: dict[str | None, dict[NodeId, None]] = {}
        self.topics_by_name: dict[str, TopicState] = {}
        self.topics_by_id: dict[TopicId, TopicState] = {}
        self.names_by_collision_key: dict[str, str] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.scram_credentials: dict[ScramUser, ScramCredential] = {}
        self.delegation_tokens: dict[str, DelegationToken] = {}  # by id
        self.token_ids = TokenIds()
        self.acls: dict[AclId, Acl] = {}
        self.acl_ids: dict[Acl, AclId] = {}
        self._led: dict[NodeId | None, Places] = {}
        self._replicated: dict[NodeId, Places] = {}
        self._imbalanced: Places = {}
        self._with_elr: Places = {}
        self._reassigned: Places = {}

    # Queries

    def config(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        """What was set on one resource; nothing for one that has no settings of its own."""
        return self.configs.get(ConfigResource(kind, name), NO_CONFIG)

    def led_by(self, node_id: NodeId) -> Iterable[Place]:
        """The partitions that a broker leads."""
        return self._led.get(node_id, {})

    def leaderless(self) -> Iterable[Place]:
        """The partitions that nobody leads."""
        return self._led.get(None, {})

    def imbalanced(self) -> Iterable[Place]:
        """The partitions with another leader than the preferred one, their first replica."""
        return self._imbalanced

    def with_elr(self) -> Iterable[Place]:
        """The partitions that have eligible leader replicas or a last known leader."""
        return self._with_elr

    def reassigned(self) -> Iterable[Place]:
        """The partitions of which a reassignment runs."""
        return self._reassigned

    def replicated_by(self, node_id: NodeId) -> Iterable[Place]:
        """The partitions that a broker holds a replica of, led ones among them."""
        return self._replicated.get(node_id, {})

    def partition(self, place: Place) -> PartitionImage:
        return self.topics_by_id[place.topic_id].partitions[place.partition]

    def check(self) -> None:
        """The module's invariants; it walks over everything."""
        assert len(self.topics_by_name) == len(self.topics_by_id)  # 1
        led: dict[NodeId | None, set[Place]] = {}
        replicated: dict[NodeId, set[Place]] = {}
        imbalanced: set[Place] = set()
        with_elr: set[Place] = set()
        reassigned: set[Place] = set()
        for topic_id, topic in self.topics_by_id.items():
            assert topic.topic_id == topic_id, topic
            assert self.topics_by_name[topic.name] is topic, topic
            assert collision_key(topic.name) in self.names_by_collision_key, topic
            for index, partition in enumerate(topic.partitions):
                place = Place(topic_id, index)
                led.setdefault(partition.leader, set()).add(place)
                for node_id in partition.replicas:
                    replicated.setdefault(node_id, set()).add(place)
                if partition.leader not in (None, partition.replicas[0]):
                    imbalanced.add(place)
                if partition.elr or partition.last_known_elr:
                    with_elr.add(place)
                if partition.is_reassigned:
                    reassigned.add(place)
        assert len(self.names_by_collision_key) <= len(self.topics_by_name)
        assert led == {node: set(places) for node, places in self._led.items()}  # 2
        assert replicated == {node: set(places) for node, places in self._replicated.items()}
        racked = {node: rack for rack, nodes in self.racks.items() for node in nodes}
        assert racked == {node: broker.rack for node, broker in self.brokers.items()}  # 3
        for resource, config in self.configs.items():  # 4
            assert config, resource
            assert resource.kind != ResourceKind.TOPIC or resource.name in self.topics_by_name
        assert imbalanced == set(self._imbalanced)  # 5
        assert with_elr == set(self._with_elr)
        assert reassigned == set(self._reassigned)
        assert {acl_id: acl for acl, acl_id in self.acl_ids.items()} == self.acls  # 6
        assert self.token_ids.all == self.delegation_tokens.keys()  # 7

    # Commands

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self._add_topic(record)
            case RemoveTopicRecord():
                self._remove_topic(TopicId(record.topic_id))
            case PartitionRecord():
                self._set_partition(record)
            case PartitionChangeRecord():
                place = Place(TopicId(record.topic_id), record.partition_id)
                self._replace(place, changed_partition(self.partition(place), record))
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case ConfigRecord():
                self._set_config(record)
            case RegisterBrokerRecord():
                self._set_broker(broker_of(record))
            case UnregisterBrokerRecord():
                self._forget_rack(self.brokers.pop(NodeId(record.broker_id)))
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                fenced = isinstance(record, FenceBrokerRecord)
                before = self.brokers[NodeId(record.id)]
                self._set_broker(fenced_broker(before, epoch=record.epoch, fenced=fenced))
            case BrokerRegistrationChangeRecord():
                before = self.brokers[NodeId(record.broker_id)]
                self._set_broker(changed_broker(before, record))
            case RegisterControllerRecord():
                controller = controller_of(record)
                self.controllers[controller.node_id] = controller
            case ProducerIdsRecord():
                assert record.next_producer_id >= self.next_producer_id, record
                self.next_producer_id = record.next_producer_id
            case FeatureLevelRecord():
                self.features[record.name] = record.feature_level
            case UserScramCredentialRecord():
                self.scram_credentials[user_of(record)] = credential_in(record)
            case RemoveUserScramCredentialRecord():
                self.scram_credentials.pop(user_of(record), None)
            case DelegationTokenRecord():
                self.delegation_tokens[record.token_id] = token_of(record)
                self.token_ids.add(record.token_id)
            case RemoveDelegationTokenRecord():
                self.delegation_tokens.pop(record.token_id, None)
                self.token_ids.remove(record.token_id)
            case AccessControlEntryRecord():
                acl, acl_id = acl_of(record), AclId(record.id)
                assert acl not in self.acl_ids, record
                assert acl_id not in self.acls, record
                self.acls[acl_id], self.acl_ids[acl] = acl, acl_id
            case RemoveAccessControlEntryRecord():
                del self.acl_ids[self.acls.pop(AclId(record.id))]
            case NoOpRecord():
                pass
            case _:
                assert_never(record)

    def apply_volatile(self, change: object) -> None:
        raise AssertionError(f"the controller has no volatile state: {change!r}")

    def _add_topic(self, record: TopicRecord) -> None:
        topic = TopicState(record.name, TopicId(record.topic_id))
        assert topic.topic_id not in self.topics_by_id, record
        assert topic.name not in self.topics_by_name, record
        self.topics_by_id[topic.topic_id] = self.topics_by_name[topic.name] = topic
        self.names_by_collision_key[collision_key(topic.name)] = topic.name

    def _remove_topic(self, topic_id: TopicId) -> None:
        topic = self.topics_by_id.pop(topic_id)
        del self.topics_by_name[topic.name]
        self.names_by_collision_key.pop(collision_key(topic.name), None)
        self.configs.pop(ConfigResource(ResourceKind.TOPIC, topic.name), None)
        for index, partition in enumerate(topic.partitions):
            self._unlist(Place(topic_id, index), partition)

    def _set_partition(self, record: PartitionRecord) -> None:
        place = Place(TopicId(record.topic_id), record.partition_id)
        partitions = self.topics_by_id[place.topic_id].partitions
        assert place.partition <= len(partitions), record
        if place.partition < len(partitions):
            self._replace(place, partition_of(record))
        else:
            partitions.append(partition_of(record))
            self._list(place, partitions[-1])

    def _replace(self, place: Place, partition: PartitionImage) -> None:
        partitions = self.topics_by_id[place.topic_id].partitions
        before = partitions[place.partition]
        if (before.leader, before.replicas) != (partition.leader, partition.replicas):
            self._unlist(place, before)
            self._list(place, partition)
        else:
            self._list_changing(place, partition)
        partitions[place.partition] = partition

    def _clear_elr(self, topic_name: str) -> None:
        if topic_name:
            topic = self.topics_by_name[topic_name]
            places = [Place(topic.topic_id, index) for index in range(len(topic.partitions))]
        else:
            places = list(self._with_elr)
        for place in places:
            if place in self._with_elr:
                self._replace(place, without_elr(self.partition(place)))

    def _list(self, place: Place, partition: PartitionImage) -> None:
        for node_id in partition.replicas:
            self._replicated.setdefault(node_id, {})[place] = None
        self._led.setdefault(partition.leader, {})[place] = None
        if partition.leader is not None and partition.leader != partition.replicas[0]:
            self._imbalanced[place] = None
        self._list_changing(place, partition)

    def _list_changing(self, place: Place, partition: PartitionImage) -> None:
        """Notes what is not a matter of leader and replicas alone."""
        if partition.elr or partition.last_known_elr:
            self._with_elr[place] = None
        else:
            self._with_elr.pop(place, None)
        if partition.is_reassigned:
            self._reassigned[place] = None
        else:
            self._reassigned.pop(place, None)

    def _unlist(self, place: Place, partition: PartitionImage) -> None:
        for node_id in partition.replicas:
            _remove(self._replicated, node_id, place)
        _remove(self._led, partition.leader, place)
        self._imbalanced.pop(place, None)
        self._with_elr.pop(place, None)
        self._reassigned.pop(place, None)

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ResourceKind(record.resource_type), record.resource_name)
        if record.value is not None:
            self.configs.setdefault(resource, {})[record.name] = record.value
            return
        config = self.configs.get(resource)
        if config is not None:
            config.pop(record.name, None)
            if not config:
                del self.configs[resource]

    def _set_broker(self, broker: BrokerImage) -> None:
        before = self.brokers.get(broker.node_id)
        self.brokers[broker.node_id] = broker
        if before is None or before.rack != broker.rack:
            if before is not None:
                self._forget_rack(before)
            self.racks.setdefault(broker.rack, {})[broker.node_id] = None

    def _forget_rack(self, broker: BrokerImage) -> None:
        nodes = self.racks[broker.rack]
        del nodes[broker.node_id]
        if not nodes:
            del self.racks[broker.rack]


def _remove(by_node: dict[Owner, Places], owner: Owner, place: Place) -> None:
    places = by_node[owner]
    del places[place]
    if not places:
        del by_node[owner]
