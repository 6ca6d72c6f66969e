"""What changes in a consumer group without being journalled: a failover forgets it."""

from dataclasses import dataclass

from penstock.metadata.image.image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSeen:
    """The group's topics were compared with those of the cluster as it was then."""

    group: str
    image: Image
