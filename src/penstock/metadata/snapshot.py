"""An image as records, and when a snapshot of it is due.

A reader of `image_records` gets exactly the image that they were made from. The order is that of
Apache Kafka: features, controllers, brokers, topics with their partitions, settings, producer ids,
access control entries, credentials, delegation tokens.

A snapshot is made once the log since the last one is a small multiple of that one, so the log and
the time to read it at a start follow the size of the image, and making snapshots costs a small part
of what the changes cost. Kafka's two settings are upper bounds of that.
"""

from collections.abc import Iterator

from penstock.metadata.image.acls import acl_record
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.changes import NO_LEADER
from penstock.metadata.image.controller import ControllerImage
from penstock.metadata.image.delegation_tokens import token_record
from penstock.metadata.image.image import Image
from penstock.metadata.image.scram import credential_record
from penstock.metadata.image.topic import TopicImage
from penstock.metadata.records import METADATA_VERSION_FEATURE, MetadataRecord
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import SNAPSHOT_LOG_BYTES_MIN, SNAPSHOTS_KEPT
from penstock.model.offset import Offset
from penstock.wire.messages.metadata_records.broker import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.controller import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.partition import PartitionRecord
from penstock.wire.messages.metadata_records.producer_ids import ProducerIdsRecord
from penstock.wire.messages.metadata_records.topic import TopicRecord

LOG_TO_SNAPSHOT_MAX = 2  # the log since a snapshot may be so many times as large as that is
NO_BROKER = -1


def image_records(image: Image) -> Iterator[MetadataRecord]:
    """The records of a snapshot. The version of the metadata comes first: others depend on it."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION_FEATURE, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for controller in image.controllers.values():
        yield _controller_record(controller)
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for topic in image.topics_by_name.values():
        yield from _topic_records(topic)
    for resource, config in image.configs.items():
        for name in sorted(config):
            yield ConfigRecord(
                resource_type=resource.kind,
                resource_name=resource.name,
                name=name,
                value=config[name],
            )
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(
            broker_id=NO_BROKER, broker_epoch=-1, next_producer_id=image.next_producer_id
        )
    for acl_id, acl in image.acls.items():
        yield acl_record(acl_id, acl)
    for user, credential in image.scram_credentials.items():
        yield credential_record(user, credential)
    for token in image.delegation_tokens.values():
        yield token_record(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBounds:
    """Kafka's two settings; an interval of 0 is none."""

    log_bytes_max: int
    interval_ms_max: int


def snapshot_due(
    bounds: SnapshotBounds, *, log_bytes: int, snapshot_bytes: int, elapsed_ms: int
) -> bool:
    """Whether to make a snapshot, given what was written since the last one, and how long ago."""
    if log_bytes == 0:
        return False
    enough = max(SNAPSHOT_LOG_BYTES_MIN, LOG_TO_SNAPSHOT_MAX * snapshot_bytes)
    if log_bytes >= min(enough, bounds.log_bytes_max):
        return True
    return 0 < bounds.interval_ms_max <= elapsed_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSnapshot:
    """What is known of a snapshot without reading it whole."""

    offset: Offset
    size_bytes: int
    timestamp_ms: int  # of the last record in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """`metadata.max.retention.bytes` and `.ms`; negative: unlimited."""

    size_bytes_max: int
    age_ms_max: int


def retained_from(
    snapshots: list[StoredSnapshot], retention: Retention, *, log_bytes: int, now_ms: int
) -> int:
    """Which snapshot, oldest first, is the oldest to keep. If it has predecessors, the log is kept
    from its offset on; if not, the log stays as it is.

    The one before the latest stays, with the log behind it, in case the latest is damaged, unless
    it is too old or all together are too large. The latest always stays.
    """
    assert snapshots
    last = len(snapshots) - 1
    first = max(0, len(snapshots) - SNAPSHOTS_KEPT)
    total_bytes = log_bytes + sum(snapshot.size_bytes for snapshot in snapshots[first:])
    while first < last and 0 <= retention.size_bytes_max < total_bytes:
        total_bytes -= snapshots[first].size_bytes
        first += 1
    while first < last and 0 <= retention.age_ms_max < now_ms - snapshots[first].timestamp_ms:
        first += 1
    return first


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in broker.endpoints
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_level,
                max_supported_version=feature.max_level,
            )
            for feature in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )


def _controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation,
        end_points=[
            ControllerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in controller.endpoints
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_level,
                max_supported_version=feature.max_level,
            )
            for feature in controller.features
        ],
    )


def _topic_records(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for index, partition in enumerate(topic.partitions):
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            leader=NO_LEADER if partition.leader is None else partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            directories=list(partition.directories),
            removing_replicas=list(partition.removing_replicas),
            adding_replicas=list(partition.adding_replicas),
            leader_recovery_state=partition.leader_recovery_state,
            eligible_leader_replicas=list(partition.elr) or None,
            last_known_elr=list(partition.last_known_elr) or None,
        )
