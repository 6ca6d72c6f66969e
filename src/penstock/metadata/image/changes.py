"""What single records say about a partition, broker or controller: for the image and the active
controller alike.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.metadata.image.broker import BrokerImage, Endpoint, FeatureRange
from penstock.metadata.image.controller import ControllerImage
from penstock.metadata.image.topic import LeaderRecovery, PartitionImage
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
RECOVERY_UNCHANGED = -1  # in a PartitionChangeRecord
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
        elr=_nodes(record.eligible_leader_replicas or ()),
        last_known_elr=_nodes(record.last_known_elr or ()),
        leader_recovery_state=LeaderRecovery(record.leader_recovery_state),
        adding_replicas=_nodes(record.adding_replicas),
        removing_replicas=_nodes(record.removing_replicas),
    )


def changed_partition(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """A partition after a change. One that names a leader begins a new leader epoch."""
    led_anew = record.leader != LEADER_UNCHANGED
    return PartitionImage(
        replicas=_changed_nodes(before.replicas, record.replicas),
        isr=_changed_nodes(before.isr, record.isr),
        leader=_leader(record.leader) if led_anew else before.leader,
        leader_epoch=LeaderEpoch(before.leader_epoch + led_anew),
        partition_epoch=before.partition_epoch + 1,
        directories=before.directories if record.directories is None else tuple(record.directories),
        elr=_changed_nodes(before.elr, record.eligible_leader_replicas),
        last_known_elr=_changed_nodes(before.last_known_elr, record.last_known_elr),
        leader_recovery_state=before.leader_recovery_state
        if record.leader_recovery_state == RECOVERY_UNCHANGED
        else LeaderRecovery(record.leader_recovery_state),
        adding_replicas=_changed_nodes(before.adding_replicas, record.adding_replicas),
        removing_replicas=_changed_nodes(before.removing_replicas, record.removing_replicas),
    )


def without_elr(before: PartitionImage) -> PartitionImage:
    """A partition after a ClearElrRecord; one that has none stays the very same value."""
    if not before.elr and not before.last_known_elr:
        return before
    partition_epoch = before.partition_epoch + 1
    return replace(before, elr=(), last_known_elr=(), partition_epoch=partition_epoch)


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


def _nodes(ids: Sequence[int]) -> tuple[NodeId, ...]:
    return tuple([NodeId(node_id) for node_id in ids])


def _changed_nodes(before: tuple[NodeId, ...], ids: list[int] | None) -> tuple[NodeId, ...]:
    return before if ids is None else _nodes(ids)


def _leader(node_id: int) -> NodeId | None:
    return None if node_id < 0 else NodeId(node_id)
