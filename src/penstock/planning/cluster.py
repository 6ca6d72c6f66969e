"""Everything for one topic, or for many taken together: partitions, traffic, disk, memory."""

from penstock.model.lazy_dataclass import dataclass
from penstock.planning.disk import (
    FILL_PERCENT_DEFAULT,
    RETENTION_SECONDS_DEFAULT,
    DiskPlan,
    plan_disk,
)
from penstock.planning.given import MB, bytes_per_second, count
from penstock.planning.memory import MemoryPlan, plan_memory
from penstock.planning.metadata import MetadataPlan, plan_metadata
from penstock.planning.partitions import (
    BROKERS_DEFAULT,
    PARTITION_MB_DEFAULT,
    REPLICATION_FACTOR_DEFAULT,
    PartitionPlan,
    plan_partitions,
)

GROUPS_DEFAULT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    partitions: PartitionPlan
    groups: int
    disk: DiskPlan
    metadata: MetadataPlan
    memory: MemoryPlan

    @property
    def in_mb(self) -> float:
        """What a broker receives: from producers, and as a follower from leaders."""
        return self._broker_mb(self.disk.replication_factor)

    @property
    def out_mb(self) -> float:
        """What a broker sends: to followers, and once to each group."""
        return self._broker_mb(self.disk.replication_factor - 1 + self.groups)

    def _broker_mb(self, times: int) -> float:
        written = bytes_per_second(self.disk.throughput_mb, what="throughput")
        return written * times / self.disk.brokers / MB


def plan_cluster(
    *,
    throughput_mb: float,
    partition_mb: float = PARTITION_MB_DEFAULT,
    consumers: int = 0,
    consumer_mb: float | None = None,
    groups: int = GROUPS_DEFAULT,
    brokers: int = BROKERS_DEFAULT,
    replication_factor: int = REPLICATION_FACTOR_DEFAULT,
    retention_seconds: int = RETENTION_SECONDS_DEFAULT,
    fill_percent: int = FILL_PERCENT_DEFAULT,
) -> ClusterPlan:
    """`groups` are those that read everything, each once."""
    count(groups, what="groups", least=0)
    planned = plan_partitions(
        throughput_mb=throughput_mb,
        partition_mb=partition_mb,
        consumers=consumers,
        consumer_mb=consumer_mb,
        brokers=brokers,
        replication_factor=replication_factor,
    )
    metadata = plan_metadata(
        partitions=planned.partitions, brokers=brokers, replication_factor=replication_factor
    )
    return ClusterPlan(
        partitions=planned,
        groups=groups,
        disk=plan_disk(
            throughput_mb=throughput_mb,
            retention_seconds=retention_seconds,
            brokers=brokers,
            replication_factor=replication_factor,
            partitions=planned.partitions,
            fill_percent=fill_percent,
        ),
        metadata=metadata,
        memory=plan_memory(throughput_mb=throughput_mb, metadata=metadata),
    )
