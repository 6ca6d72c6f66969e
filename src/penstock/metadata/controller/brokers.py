"""Brokers join the cluster: registered, then unfenced once they are ready to serve."""

from dataclasses import dataclass

from penstock.machine.decision import Decision
from penstock.metadata.controller.situation import Situation
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.records import (
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_LEVEL,
    MetadataRecord,
)
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.metadata_records.broker import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord

UNFENCED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker's process says who it is. `incarnation` is new with each start."""

    node_id: NodeId
    incarnation: bytes
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    directories: tuple[bytes, ...]


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
    """What a metadata log begins with."""
    return (
        FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION_LEVEL),
    )


def register_broker(
    situation: Situation, request: RegisterBroker
) -> Decision[MetadataRecord, BrokerRegistered]:
    """The broker's epoch is the offset of its registration: later ones are larger."""
    present = situation.image.brokers.get(request.node_id)
    if present is not None and present.incarnation == request.incarnation:
        return Decision(reply=BrokerRegistered(broker_epoch=present.epoch))
    record = RegisterBrokerRecord(
        broker_id=request.node_id,
        incarnation_id=request.incarnation,
        broker_epoch=situation.next_offset,
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
            BrokerFeature(
                name=METADATA_VERSION_FEATURE,
                min_supported_version=METADATA_VERSION_LEVEL,
                max_supported_version=METADATA_VERSION_LEVEL,
            )
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.directories),
    )
    return Decision(records=(record,), reply=BrokerRegistered(broker_epoch=situation.next_offset))


def unfence_broker(
    situation: Situation, request: UnfenceBroker
) -> Decision[MetadataRecord, BrokerUnfenced]:
    broker = situation.image.brokers.get(request.node_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH)
    if not broker.fenced:
        return Decision(reply=BrokerUnfenced())
    record = BrokerRegistrationChangeRecord(
        broker_id=request.node_id, broker_epoch=request.broker_epoch, fenced=UNFENCED
    )
    return Decision(records=(record,), reply=BrokerUnfenced())
