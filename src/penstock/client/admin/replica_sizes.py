"""How large each replica is, and how far the copies of a reassignment have come."""

from collections.abc import Collection, Iterable, Mapping

from penstock.client.admin.admin import Admin
from penstock.client.admin.reassignments import Reassignment
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.client.network.repeated import repeated
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

NAMED_MAX = 10_000
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


async def replica_sizes(
    cluster: Cluster, wanted: Mapping[TopicPartition, Collection[NodeId]] | None = None
) -> dict[TopicPartition, dict[NodeId, int]]:
    """Of all replicas, or of partitions on these brokers. A replica of a broker that does not
    answer is missing.
    """
    asked: dict[NodeId, list[TopicPartition] | None]
    if wanted is None:
        asked = dict.fromkeys((await repeated(cluster, cluster.refresh)).brokers)
    else:
        asked = _by_node(wanted)
    found: dict[TopicPartition, dict[NodeId, int]] = {}
    for node, partitions in asked.items():
        try:
            told = await Admin(cluster).log_directories([node], partitions=partitions)
            directories = told[node]
        except ClientError:
            continue  # it is down, or was a moment ago
        if isinstance(directories, Refused):
            continue
        for directory in directories:
            for replica in directory.replicas:
                if not replica.is_future:
                    found.setdefault(replica.partition, {})[node] = replica.size_bytes
    return found


def _by_node(
    wanted: Mapping[TopicPartition, Collection[NodeId]],
) -> dict[NodeId, list[TopicPartition] | None]:
    """None where so many are wanted that all are told sooner."""
    places: dict[NodeId, list[TopicPartition]] = {}
    for place, nodes in wanted.items():
        for node in nodes:
            places.setdefault(node, []).append(place)
    return {node: some if len(some) <= NAMED_MAX else None for node, some in places.items()}


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
