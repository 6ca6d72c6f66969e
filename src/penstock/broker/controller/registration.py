"""What a node says of itself when it registers."""

from collections.abc import Sequence

from penstock.metadata.image.broker import Endpoint
from penstock.metadata.records import FEATURE_LEVELS
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.registration_parts import RegisteredListener, SupportedFeature

NO_EPOCH = -1


def registration_of(
    *,
    node_id: NodeId,
    cluster_id: str,
    incarnation: bytes,
    rack: str | None,
    endpoints: Sequence[Endpoint],
    directories: Sequence[bytes],
    previous_broker_epoch: int | None = None,
) -> BrokerRegistrationRequest:
    """What a process of this version says of itself; `incarnation` is new with each start, and the
    previous epoch is that in which the broker stopped cleanly, if it did.
    """
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation,
        listeners=listeners_of(endpoints),
        features=supported_features(),
        rack=rack,
        log_dirs=list(directories),
        previous_broker_epoch=NO_EPOCH if previous_broker_epoch is None else previous_broker_epoch,
    )


def listeners_of(endpoints: Sequence[Endpoint]) -> list[RegisteredListener]:
    """Endpoints as brokers and controllers register them."""
    return [
        RegisteredListener(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints
    ]


def supported_features() -> list[SupportedFeature]:
    """The levels that this version supports, as brokers and controllers register them."""
    return [
        SupportedFeature(name=name, min_supported_version=level, max_supported_version=level)
        for name, level in FEATURE_LEVELS.items()
    ]
