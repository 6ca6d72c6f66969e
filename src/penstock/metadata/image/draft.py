"""Builds the next image: takes records in order, returns the image and what changed.

Only what the records change is copied. `apply` never fails: a record that does not fit the image is
our own bug, since only a controller's decisions are journalled.
"""

from dataclasses import replace
from typing import assert_never

from penstock.metadata.image.broker import BrokerImage, Endpoint
from penstock.metadata.image.image import ConfigResource, Delta, Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.metadata.records import MetadataRecord
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.listener import SecurityProtocol
from penstock.wire.messages.metadata_records.broker import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.no_op import NoOpRecord
from penstock.wire.messages.metadata_records.partition import (
    PartitionChangeRecord,
    PartitionRecord,
)
from penstock.wire.messages.metadata_records.producer_ids import ProducerIdsRecord
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord, TopicRecord

LEADER_UNCHANGED = -2  # in a PartitionChangeRecord
UNFENCED = -1  # in a BrokerRegistrationChangeRecord
FENCED = 1


class Draft:
    """Changes laid over a base image; `finish` ends it."""

    def __init__(self, base: Image) -> None:
        self._base = base
        self._brokers: dict[NodeId, BrokerImage | None] = {}  # None: gone
        self._topics: dict[TopicId, tuple[str, list[PartitionImage]]] = {}
        self._deleted: dict[TopicId, TopicImage] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._next_producer_id = base.next_producer_id

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
            case ConfigRecord():
                self._set_config(record)
            case RegisterBrokerRecord():
                self._register(record)
            case UnregisterBrokerRecord():
                self._brokers[NodeId(record.broker_id)] = None
            case FenceBrokerRecord():
                self._fence(NodeId(record.id), epoch=record.epoch, fenced=True)
            case UnfenceBrokerRecord():
                self._fence(NodeId(record.id), epoch=record.epoch, fenced=False)
            case BrokerRegistrationChangeRecord():
                if record.fenced in (FENCED, UNFENCED):
                    self._fence(
                        NodeId(record.broker_id),
                        epoch=record.broker_epoch,
                        fenced=record.fenced == FENCED,
                    )
            case ProducerIdsRecord():
                assert record.next_producer_id >= self._next_producer_id, record
                self._next_producer_id = record.next_producer_id
            case FeatureLevelRecord():
                self._features[record.name] = record.feature_level
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
        by_id, by_name = dict(base.topics_by_id), dict(base.topics_by_name)
        for topic in self._deleted.values():
            del by_id[topic.topic_id], by_name[topic.name]
        for topic in topics.values():
            by_id[topic.topic_id] = by_name[topic.name] = topic
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
            features_changed=tuple(self._features),
        )
        image = Image(
            offset=offset,
            epoch=epoch,
            brokers=self._finished_brokers(),
            topics_by_name=by_name,
            topics_by_id=by_id,
            configs=self._finished_configs(),
            features={**base.features, **self._features} if self._features else base.features,
            next_producer_id=self._next_producer_id,
        )
        return delta, image

    def _finished_brokers(self) -> dict[NodeId, BrokerImage]:
        laid_over = {**self._base.brokers, **self._brokers}
        return {node: broker for node, broker in sorted(laid_over.items()) if broker is not None}

    def _finished_configs(self) -> dict[ConfigResource, dict[str, str]]:
        laid_over = {**self._base.configs, **self._configs}
        return {resource: dict(config) for resource, config in laid_over.items() if config}

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
        image = PartitionImage(
            replicas=_nodes(record.replicas),
            isr=_nodes(record.isr),
            leader=_leader(record.leader),
            leader_epoch=LeaderEpoch(record.leader_epoch),
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories),
        )
        assert record.partition_id <= len(partitions), record
        partitions[record.partition_id : record.partition_id + 1] = [image]

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._topic(TopicId(record.topic_id))
        before = partitions[record.partition_id]
        led_anew = record.leader != LEADER_UNCHANGED
        partitions[record.partition_id] = PartitionImage(
            replicas=before.replicas if record.replicas is None else _nodes(record.replicas),
            isr=before.isr if record.isr is None else _nodes(record.isr),
            leader=_leader(record.leader) if led_anew else before.leader,
            leader_epoch=LeaderEpoch(before.leader_epoch + led_anew),
            partition_epoch=before.partition_epoch + 1,
            directories=before.directories
            if record.directories is None
            else tuple(record.directories),
        )

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ResourceKind(record.resource_type), record.resource_name)
        config = self._configs.get(resource)
        if config is None:
            config = self._configs[resource] = dict(self._base.configs.get(resource, {}))
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value

    def _register(self, record: RegisterBrokerRecord) -> None:
        node_id = NodeId(record.broker_id)
        self._brokers[node_id] = BrokerImage(
            node_id=node_id,
            epoch=record.broker_epoch,
            incarnation=record.incarnation_id,
            rack=record.rack,
            endpoints=tuple(
                Endpoint(
                    listener=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=SecurityProtocol(endpoint.security_protocol),
                )
                for endpoint in record.end_points
            ),
            fenced=record.fenced,
            directories=tuple(record.log_dirs),
        )

    def _fence(self, node_id: NodeId, *, epoch: int, fenced: bool) -> None:
        broker = self._brokers.get(node_id) or self._base.brokers[node_id]
        assert broker.epoch == epoch, (broker, epoch)
        self._brokers[node_id] = replace(broker, fenced=fenced)


def _nodes(ids: list[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(node_id) for node_id in ids)


def _leader(node_id: int) -> NodeId | None:
    return None if node_id < 0 else NodeId(node_id)
