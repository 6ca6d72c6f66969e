"""Whom to ask instead: what a client is told that came to the wrong broker (KIP-951)."""

from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderHint:
    node_id: NodeId
    leader_epoch: LeaderEpoch
    host: str
    port: int
    rack: str | None


def leader_hint(image: Image, topic: str, index: int, *, listener: str) -> LeaderHint | None:
    """Who leads a partition, and where it listens; None when either is unknown."""
    found = image.topics_by_name.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return None
    partition = found.partitions[index]
    broker = None if partition.leader is None else image.brokers.get(partition.leader)
    endpoint = None if broker is None else broker.endpoint(listener)
    if broker is None or endpoint is None:
        return None
    return LeaderHint(
        node_id=broker.node_id,
        leader_epoch=partition.leader_epoch,
        host=endpoint.host,
        port=endpoint.port,
        rack=broker.rack,
    )
