"""A broker as the metadata log describes it."""

from typing import NamedTuple

from penstock.metadata.image.topic import UNASSIGNED_DIRECTORY
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.listener import SecurityProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where clients reach a broker on one of its listeners."""

    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class FeatureRange(NamedTuple):
    """The levels of a feature that a broker supports."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """One registered broker. Fenced brokers lead nothing, and clients are soon not told of them."""

    node_id: NodeId
    epoch: int  # offset of the decision that registered it, in the metadata log
    incarnation: bytes
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
    fenced: bool
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether it may lead, and be in sync with, new partitions."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_directory(self, directory: bytes) -> bool:
        """Whether it has the log directory of a replica, or has not said yet which one that is."""
        return directory == UNASSIGNED_DIRECTORY or directory in self.directories

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of one listener, by name."""
        return next((found for found in self.endpoints if found.listener == listener), None)
