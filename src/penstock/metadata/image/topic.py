"""Topics and their partitions as the metadata log describes them."""

from enum import IntEnum

from penstock.model.identity import NodeId, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch

UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"  # the broker chooses, and has not said yet
LOST_DIRECTORY = bytes(15) + b"\x02"  # the broker does not have it any more


class LeaderRecovery(IntEnum):
    """Whether a leader that was elected uncleanly has to recover, by the numbers of the wire."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition: its replicas, those in sync, the leader, and its epochs.

    `elr` are the eligible leader replicas (KIP-966): they are not in sync, but have all records
    below the high watermark. `last_known_elr` is the last leader of a partition that has none.
    `adding_replicas` and `removing_replicas` are those of a reassignment: both hold the partition
    until it is complete.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId | None
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[bytes, ...] = ()  # of each replica, in their order
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    leader_recovery_state: LeaderRecovery = LeaderRecovery.RECOVERED
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()

    def __post_init__(self) -> None:
        assert set(self.isr) <= set(self.replicas), self
        assert self.leader is None or self.leader in self.replicas, self
        if self.elr:
            assert set(self.elr) <= set(self.replicas), self
            assert not set(self.elr).intersection(self.isr), self

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment of this partition runs."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def replica_count(self) -> int:
        """The number that `min.insync.replicas` is compared with: while a reassignment runs, the
        smaller one of before and after, so that no write waits for a replica that is being copied.
        """
        less = max(len(self.adding_replicas), len(self.removing_replicas))
        assert less < len(self.replicas), self
        return len(self.replicas) - less

    @property
    def replication_factor(self) -> int:
        """How many replicas the partition has, or is going to have after a reassignment."""
        return len(self.replicas) - len(self.removing_replicas)

    def directory(self, replica: NodeId) -> bytes:
        """The id of the log directory that a replica is in."""
        index = self.replicas.index(replica)
        return self.directories[index] if index < len(self.directories) else UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic; `partitions[n]` is partition n."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
