"""A source of metrics that a node has by its settings; its alerts read it too."""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.metrics.family import Source
from penstock.node.config import NodeConfig
from penstock.world.ports import World

if TYPE_CHECKING:
    from penstock.broker.metrics.certificates import Certificates


def certificate_source(world: World, config: NodeConfig) -> Source | None:
    """None without listeners of TLS: then what reads certificates is not imported either."""
    settings = {
        one.name: config.settings.tls_of(one.name)
        for one in config.cluster.listeners.values()
        if one.security_protocol.has_tls
    }
    if not settings:
        return None
    make: type[Certificates] = import_module("penstock.broker.metrics.certificates").Certificates
    return make(settings, world.disk).source
