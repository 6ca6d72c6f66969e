"""How brokers join the cluster: they register, and are unfenced.

A broker that comes back from a crash leads in new epochs: records that were not synced may be lost,
and readers detect a truncated log only by its epochs. They are part of the decision that registers
it, before its registration, however many partitions it leads. A broker that stopped cleanly in the
epoch that the cluster knows of has lost nothing and goes on in the epochs that it had.
"""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.records import FEATURE_LEVELS, MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.metadata_records.broker import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord

UNFENCED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker process registers. `incarnation` is new with each start."""

    node_id: NodeId
    incarnation: bytes
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    directories: tuple[bytes, ...]
    previous_broker_epoch: int | None = None  # in which the broker stopped cleanly, if it did


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBroker:
    """The broker has caught up with the metadata and is ready for clients."""

    node_id: NodeId
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced:
    pass


def bootstrap_records() -> tuple[MetadataRecord, ...]:
    """The first records of a metadata log."""
    return missing_features(ControllerState())


def missing_features(state: ControllerState) -> tuple[FeatureLevelRecord, ...]:
    """The features that a metadata log has not finalised yet; the log of an older version lacks
    some.
    """
    return tuple(
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in FEATURE_LEVELS.items()
        if name not in state.features
    )


def register_broker(
    context: DecisionContext, request: RegisterBroker
) -> Decision[MetadataRecord, BrokerRegistered]:
    """The broker's epoch is the offset of the decision: later ones are larger."""
    present = context.state.brokers.get(request.node_id)
    if present is not None and present.incarnation == request.incarnation:
        return Decision(reply=BrokerRegistered(broker_epoch=present.epoch))
    record = RegisterBrokerRecord(
        broker_id=request.node_id,
        incarnation_id=request.incarnation,
        broker_epoch=context.next_offset,
        end_points=[
            BrokerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in request.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=level, max_supported_version=level)
            for name, level in FEATURE_LEVELS.items()
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.directories),
    )
    stopped_cleanly = present is not None and request.previous_broker_epoch == present.epoch
    led_anew = (
        PartitionChangeRecord(
            topic_id=place.topic_id, partition_id=place.partition, leader=request.node_id
        )
        for place in (() if stopped_cleanly else sorted(context.state.led_by(request.node_id)))
    )
    return Decision(
        records=(*led_anew, record, *missing_features(context.state)),
        reply=BrokerRegistered(broker_epoch=context.next_offset),
        framed=True,
    )


def unfence_broker(
    context: DecisionContext, request: UnfenceBroker
) -> Decision[MetadataRecord, BrokerUnfenced]:
    broker = context.state.brokers.get(request.node_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH)
    if not broker.fenced:
        return Decision(reply=BrokerUnfenced())
    record = BrokerRegistrationChangeRecord(
        broker_id=request.node_id, broker_epoch=request.broker_epoch, fenced=UNFENCED
    )
    return Decision(records=(record,), reply=BrokerUnfenced())
