"""Builds the next image: takes records in order, returns the image and what changed.

It costs what the records change, not what the image holds. `apply` never fails: a record that does
not fit the image is our own bug, since only a controller's decisions are journalled.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from penstock.metadata.image.acls import acl_of, changed_index
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
from penstock.metadata.image.image import ConfigResource, Delta, Image
from penstock.metadata.image.scram import ScramUser, credential_in, user_of
from penstock.metadata.image.shared_map import SharedMap, shared
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.metadata.records import MetadataRecord
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.security.acl.entry import Acl, AclId
from penstock.security.delegation_token import DelegationToken
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


class Draft:
    """Changes laid over a base image; `finish` ends it."""

    def __init__(self, base: Image) -> None:
        self._base = base
        self._brokers: dict[NodeId, BrokerImage | None] = {}  # None: gone
        self._controllers: dict[NodeId, ControllerImage] = {}
        self._topics: dict[TopicId, tuple[str, list[PartitionImage]]] = {}
        self._deleted: dict[TopicId, TopicImage] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._next_producer_id = base.next_producer_id
        self._scram: dict[ScramUser, ScramCredential | None] = {}  # None: removed
        self._tokens: dict[str, DelegationToken | None] = {}  # None: removed
        self._acls_added: dict[AclId, Acl] = {}
        self._acls_removed: dict[AclId, Acl] = {}

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                topic_id = TopicId(record.topic_id)
                assert topic_id not in self._base.topics_by_id, record
                self._topics[topic_id] = (record.name, [])
            case RemoveTopicRecord():
                self._remove_topic(TopicId(record.topic_id))
            case PartitionRecord():
                self._set_partition(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case ConfigRecord():
                self._set_config(record)
            case RegisterBrokerRecord():
                self._brokers[NodeId(record.broker_id)] = broker_of(record)
            case UnregisterBrokerRecord():
                self._brokers[NodeId(record.broker_id)] = None
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                node_id = NodeId(record.id)
                fenced = isinstance(record, FenceBrokerRecord)
                self._brokers[node_id] = fenced_broker(
                    self._broker(node_id), epoch=record.epoch, fenced=fenced
                )
            case BrokerRegistrationChangeRecord():
                node_id = NodeId(record.broker_id)
                self._brokers[node_id] = changed_broker(self._broker(node_id), record)
            case RegisterControllerRecord():
                controller = controller_of(record)
                self._controllers[controller.node_id] = controller
            case ProducerIdsRecord():
                assert record.next_producer_id >= self._next_producer_id, record
                self._next_producer_id = record.next_producer_id
            case FeatureLevelRecord():
                self._features[record.name] = record.feature_level
            case UserScramCredentialRecord():
                self._scram[user_of(record)] = credential_in(record)
            case RemoveUserScramCredentialRecord():
                self._scram[user_of(record)] = None
            case DelegationTokenRecord():
                self._tokens[record.token_id] = token_of(record)
            case RemoveDelegationTokenRecord():
                self._tokens[record.token_id] = None
            case AccessControlEntryRecord():
                acl_id = AclId(record.id)
                assert acl_id not in self._base.acls or acl_id in self._acls_removed, record
                self._acls_added[acl_id] = acl_of(record)
            case RemoveAccessControlEntryRecord():
                self._remove_acl(AclId(record.id))
            case NoOpRecord():
                pass
            case _:
                assert_never(record)

    def finish(self, *, offset: Offset, epoch: LeaderEpoch) -> tuple[Delta, Image]:
        """What changed, and the image with it; `offset` is the one after the last record."""
        assert offset >= self._base.offset
        base = self._base
        topics = {
            topic_id: TopicImage(name=name, topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, (name, partitions) in self._topics.items()
        }
        by_name = shared(base.topics_by_name).changed(
            {topic.name: topic for topic in topics.values()},
            without=[topic.name for topic in self._deleted.values()],
        )
        by_id = shared(base.topics_by_id).changed(topics, without=self._deleted)
        delta = Delta(
            topics_deleted=tuple(self._deleted.values()),
            topics_created=tuple(
                topic for topic_id, topic in topics.items() if topic_id not in base.topics_by_id
            ),
            topics_changed=tuple(
                topic for topic_id, topic in topics.items() if topic_id in base.topics_by_id
            ),
            configs_changed=tuple(
                resource
                for resource in self._configs
                if resource.kind != ResourceKind.TOPIC or resource.name in by_name
            ),
            brokers_changed=tuple(self._brokers),
            controllers_changed=tuple(self._controllers),
            features_changed=tuple(self._features),
            scram_users_changed=tuple(self._scram),
            delegation_tokens_changed=tuple(self._tokens),
            acls_changed=bool(self._acls_added or self._acls_removed),
        )
        image = Image(
            offset=offset,
            epoch=epoch,
            brokers=self._finished_brokers() if self._brokers else base.brokers,
            controllers=self._finished_controllers() if self._controllers else base.controllers,
            topics_by_name=by_name,
            topics_by_id=by_id,
            configs=self._finished_configs(),
            features={**base.features, **self._features} if self._features else base.features,
            next_producer_id=self._next_producer_id,
            scram_credentials=self._finished_scram() if self._scram else base.scram_credentials,
            delegation_tokens=self._finished_tokens() if self._tokens else base.delegation_tokens,
            acls=shared(base.acls).changed(self._acls_added, without=self._acls_removed),
            acls_by_pattern=changed_index(
                base.acls_by_pattern,
                removed=list(self._acls_removed.values()),
                added=list(self._acls_added.values()),
            ),
        )
        return delta, image

    def _finished_brokers(self) -> dict[NodeId, BrokerImage]:
        laid_over = {**self._base.brokers, **self._brokers}
        return {node: broker for node, broker in sorted(laid_over.items()) if broker is not None}

    def _finished_controllers(self) -> dict[NodeId, ControllerImage]:
        return dict(sorted({**self._base.controllers, **self._controllers}.items()))

    def _finished_configs(self) -> SharedMap[ConfigResource, Mapping[str, str]]:
        base = shared(self._base.configs)
        set_now = {resource: config for resource, config in self._configs.items() if config}
        emptied = [
            resource
            for resource, config in self._configs.items()
            if not config and resource in base
        ]
        return base.changed(set_now, without=emptied)

    def _finished_scram(self) -> SharedMap[ScramUser, ScramCredential]:
        base = shared(self._base.scram_credentials)
        set_now = {user: one for user, one in self._scram.items() if one is not None}
        removed = [user for user, one in self._scram.items() if one is None and user in base]
        return base.changed(set_now, without=removed)

    def _finished_tokens(self) -> SharedMap[str, DelegationToken]:
        base = shared(self._base.delegation_tokens)
        set_now = {token_id: one for token_id, one in self._tokens.items() if one is not None}
        removed = [key for key, one in self._tokens.items() if one is None and key in base]
        return base.changed(set_now, without=removed)

    def _topic(self, topic_id: TopicId) -> list[PartitionImage]:
        """The partitions of a topic, to be changed."""
        touched = self._topics.get(topic_id)
        if touched is None:
            base = self._base.topics_by_id[topic_id]
            touched = self._topics[topic_id] = (base.name, list(base.partitions))
        return touched[1]

    def _remove_topic(self, topic_id: TopicId) -> None:
        touched = self._topics.pop(topic_id, None)
        base = self._base.topics_by_id.get(topic_id)
        assert touched is not None or base is not None, topic_id
        if base is not None:
            self._deleted[topic_id] = base
        name = touched[0] if touched is not None else base.name if base is not None else ""
        # Emptied, not left to the base: a topic of the same name that follows begins without.
        self._configs[ConfigResource(ResourceKind.TOPIC, name)] = {}

    def _set_partition(self, record: PartitionRecord) -> None:
        partitions = self._topic(TopicId(record.topic_id))
        assert record.partition_id <= len(partitions), record
        partitions[record.partition_id : record.partition_id + 1] = [partition_of(record)]

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._topic(TopicId(record.topic_id))
        index = record.partition_id
        partitions[index] = changed_partition(partitions[index], record)

    def _clear_elr(self, topic_name: str) -> None:
        """Of one topic, or of all. It walks over all of them, which is rare."""
        base = self._base
        topics: Iterable[TopicImage] = base.topics_by_id.values()
        if topic_name:
            named = base.topics_by_name.get(topic_name)
            topics = () if named is None else (named,)
        for topic in topics:
            if topic.topic_id in self._topics or topic.topic_id in self._deleted:
                continue
            if any(partition.elr or partition.last_known_elr for partition in topic.partitions):
                self._topic(topic.topic_id)
        for name, partitions in self._topics.values():
            if topic_name in ("", name):
                partitions[:] = [without_elr(partition) for partition in partitions]

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ResourceKind(record.resource_type), record.resource_name)
        config = self._configs.get(resource)
        if config is None:
            config = self._configs[resource] = dict(self._base.configs.get(resource, {}))
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value

    def _remove_acl(self, acl_id: AclId) -> None:
        if self._acls_added.pop(acl_id, None) is None:
            assert acl_id not in self._acls_removed, acl_id
            self._acls_removed[acl_id] = self._base.acls[acl_id]

    def _broker(self, node_id: NodeId) -> BrokerImage:
        return self._brokers.get(node_id) or self._base.brokers[node_id]
