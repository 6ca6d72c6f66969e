"""How large each replica is, and how far the copies of a reassignment have come."""

from collections.abc import Iterable, Mapping

from penstock.client.admin.admin import Admin
from penstock.client.admin.reassignments import Reassignment
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

Sizes = Mapping[TopicPartition, Mapping[NodeId, int]]  # in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    done_bytes: int
    whole_bytes: int

    def __post_init__(self) -> None:
        assert 0 <= self.done_bytes <= self.whole_bytes

    @property
    def share(self) -> float:
        return self.done_bytes / self.whole_bytes if self.whole_bytes else 0.0


async def replica_sizes(cluster: Cluster) -> dict[TopicPartition, dict[NodeId, int]]:
    """By the brokers that answer; a replica of one that does not is missing."""
    found: dict[TopicPartition, dict[NodeId, int]] = {}
    for node in (await cluster.refresh()).brokers:
        try:
            directories = (await Admin(cluster).log_directories([node]))[node]
        except ClientError:
            continue  # it is down, or was a moment ago
        if isinstance(directories, Refused):
            continue
        for directory in directories:
            for replica in directory.replicas:
                if not replica.is_future:
                    found.setdefault(replica.partition, {})[node] = replica.size_bytes
    return found


def copied(moving: Iterable[Reassignment], sizes: Sizes) -> dict[TopicPartition, Copied]:
    """What of the new replicas is there. The largest copy counts as the whole: what is written
    meanwhile has to be copied too.
    """
    found = {}
    for one in moving:
        held = sizes.get(one.partition, {})
        whole = max((held.get(node, 0) for node in one.replicas), default=0)
        found[one.partition] = Copied(
            done_bytes=sum(min(held.get(node, 0), whole) for node in one.adding),
            whole_bytes=whole * len(one.adding),
        )
    return found
