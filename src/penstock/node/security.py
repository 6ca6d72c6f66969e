"""How the listeners of a node are guarded, and its connections to others."""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from penstock.broker.network.entrance import Entrance
from penstock.model.lazy_dataclass import dataclass
from penstock.world.ports import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSecurity:
    """By the names of listeners. What is missing is plain text."""

    entrances: Mapping[str, Entrance] = field(default_factory=lambda: MappingProxyType({}))
    networks: Mapping[str, Network] = field(default_factory=lambda: MappingProxyType({}))


PLAIN = NodeSecurity()
