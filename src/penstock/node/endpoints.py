"""Where a node is reached: what others are told of its listeners."""

from penstock.metadata.image.broker import Endpoint
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.cluster_node import NodeListener
from penstock.model.settings.listener import ANY_HOSTS, ListenAddress
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.world.ports import Address


def endpoint_of(
    listening: ListenAddress, settings: BrokerSettings, *, bound: Address, host_name: str
) -> Endpoint:
    """What clients are told of a listener: as advertised, else where it listens."""
    host, port = listening.host, 0
    for advertised in settings.advertised_listeners or ():
        if advertised.listener == listening.listener:
            host, port = advertised.host, advertised.port
    return Endpoint(
        listener=listening.listener,
        host=host_name if host in ANY_HOSTS else host,
        port=port or bound.port,
        security_protocol=settings.protocol_of(listening.listener),
    )


def controller_endpoint(
    listening: NodeListener, *, bound: Address, host_name: str
) -> NamedEndpoint:
    """What the other nodes are told of a controller's listener."""
    told = listening.advertised
    host = listening.host if told is None else told.host
    return NamedEndpoint(
        name=listening.name,
        host=host_name if host in ANY_HOSTS else host,
        port=bound.port if told is None or told.port == 0 else told.port,
    )
