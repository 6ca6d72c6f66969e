"""What single records say about a partition, broker or controller: for the image and the active
controller alike.
"""

from dataclasses import replace

from penstock.metadata.image.broker import BrokerImage, Endpoint, FeatureRange
from penstock.metadata.image.controller import ControllerImage
from penstock.metadata.image.topic import PartitionImage
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.listener import SecurityProtocol
from penstock.wire.messages.metadata_records.broker import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.controller import RegisterControllerRecord
from penstock.wire.messages.metadata_records.partition import (
    PartitionChangeRecord,
    PartitionRecord,
)

NO_LEADER = -1  # in the records of partitions
LEADER_UNCHANGED = -2  # in a PartitionChangeRecord
UNFENCED = -1  # in a BrokerRegistrationChangeRecord
FENCED = 1
SHUTTING_DOWN = 1


def partition_of(record: PartitionRecord) -> PartitionImage:
    """A partition as a record describes it whole."""
    return PartitionImage(
        replicas=_nodes(record.replicas),
        isr=_nodes(record.isr),
        leader=_leader(record.leader),
        leader_epoch=LeaderEpoch(record.leader_epoch),
        partition_epoch=record.partition_epoch,
        directories=tuple(record.directories),
    )


def changed_partition(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """A partition after a change. One that names a leader begins a new leader epoch."""
    led_anew = record.leader != LEADER_UNCHANGED
    return PartitionImage(
        replicas=before.replicas if record.replicas is None else _nodes(record.replicas),
        isr=before.isr if record.isr is None else _nodes(record.isr),
        leader=_leader(record.leader) if led_anew else before.leader,
        leader_epoch=LeaderEpoch(before.leader_epoch + led_anew),
        partition_epoch=before.partition_epoch + 1,
        directories=before.directories if record.directories is None else tuple(record.directories),
    )


def broker_of(record: RegisterBrokerRecord) -> BrokerImage:
    """A broker as it registered."""
    return BrokerImage(
        node_id=NodeId(record.broker_id),
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
        features=tuple(
            FeatureRange(feature.name, feature.min_supported_version, feature.max_supported_version)
            for feature in record.features
        ),
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=tuple(record.log_dirs),
    )


def controller_of(record: RegisterControllerRecord) -> ControllerImage:
    """A controller as it registered."""
    return ControllerImage(
        node_id=NodeId(record.controller_id),
        incarnation=record.incarnation_id,
        endpoints=tuple(
            Endpoint(
                listener=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=SecurityProtocol(endpoint.security_protocol),
            )
            for endpoint in record.end_points
        ),
        features=tuple(
            FeatureRange(feature.name, feature.min_supported_version, feature.max_supported_version)
            for feature in record.features
        ),
    )


def changed_broker(before: BrokerImage, record: BrokerRegistrationChangeRecord) -> BrokerImage:
    """A broker after a change of its registration; 0 and no directories mean "as before"."""
    assert before.epoch == record.broker_epoch, (before, record)
    return replace(
        before,
        fenced=record.fenced == FENCED if record.fenced in (FENCED, UNFENCED) else before.fenced,
        in_controlled_shutdown=before.in_controlled_shutdown
        or record.in_controlled_shutdown == SHUTTING_DOWN,
        directories=tuple(record.log_dirs) or before.directories,
    )


def fenced_broker(before: BrokerImage, *, epoch: int, fenced: bool) -> BrokerImage:
    """A broker after a record that only fences or unfences it."""
    assert before.epoch == epoch, (before, epoch)
    return replace(before, fenced=fenced)


def _nodes(ids: list[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(node_id) for node_id in ids)


def _leader(node_id: int) -> NodeId | None:
    return None if node_id < 0 else NodeId(node_id)
