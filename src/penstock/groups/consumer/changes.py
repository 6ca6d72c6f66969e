"""What changes in a consumer group without being journalled: a failover forgets it."""

from dataclasses import dataclass

from penstock.model.offset import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSeen:
    """The group's topics were compared with the cluster's as of this offset of its metadata."""

    group: str
    offset: Offset
