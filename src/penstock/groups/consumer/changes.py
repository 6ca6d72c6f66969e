"""Changes of a consumer group that are not journalled, and are lost on failover."""

from penstock.metadata.image.image import Image
from penstock.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSeen:
    """The group's topics were compared with this image of the cluster."""

    group: str
    image: Image
