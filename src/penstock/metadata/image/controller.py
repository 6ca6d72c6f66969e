"""A controller as the metadata log describes it."""

from penstock.metadata.image.broker import Endpoint, FeatureRange
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerImage:
    """One registered controller, and where others reach it. It may have gone since."""

    node_id: NodeId
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
