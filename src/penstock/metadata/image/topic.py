"""Topics and their partitions as the metadata log describes them."""

from penstock.model.identity import NodeId, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition: its replicas, those in sync, the leader, and its epochs."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId | None
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        assert set(self.isr) <= set(self.replicas), self
        assert self.leader is None or self.leader in self.replicas, self


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic; `partitions[n]` is partition n."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
