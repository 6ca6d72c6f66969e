"""How many partitions a topic needs, and what decides it.

The number is the largest of three: what the throughput needs, what the consumers need (one
partition each, since a partition is read by one consumer of a group), and one for each broker, so
that each has something to lead. It is not rounded up to a multiple of the brokers: then it could
fall where brokers are added.
"""

from enum import Enum

from penstock.model.lazy_dataclass import dataclass
from penstock.planning.given import MB, bytes_per_second, ceil_div, count
from penstock.planning.spread import Spread, spread

PARTITION_MB_DEFAULT = 10.0  # of one partition, with replicas and acks=all, cautiously
BROKERS_DEFAULT = 3
REPLICATION_FACTOR_DEFAULT = 3


class Need(Enum):
    """What asks for partitions. The first of those that ask for as many decides."""

    THROUGHPUT = "throughput"
    CONSUMERS = "consumers"
    BROKERS = "brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    throughput_mb: float
    partition_mb: float
    consumers: int  # as many as were given, or as the throughput needs
    needs: dict[Need, int]
    spread: Spread

    @property
    def partitions(self) -> int:
        return max(self.needs.values())

    @property
    def decided_by(self) -> Need:
        return max(Need, key=lambda need: self.needs[need])

    @property
    def achievable_mb(self) -> float:
        """Where no partition takes more than the others, and nothing else is the limit."""
        partition_bytes = bytes_per_second(self.partition_mb, what="throughput of a partition")
        return self.partitions * partition_bytes / MB


def plan_partitions(
    *,
    throughput_mb: float,
    partition_mb: float = PARTITION_MB_DEFAULT,
    consumers: int = 0,
    consumer_mb: float | None = None,
    brokers: int = BROKERS_DEFAULT,
    replication_factor: int = REPLICATION_FACTOR_DEFAULT,
) -> PartitionPlan:
    """`consumers` are those of the largest group; `consumer_mb` is what one of them processes."""
    throughput = bytes_per_second(throughput_mb, what="throughput")
    partition = bytes_per_second(partition_mb, what="throughput of a partition")
    count(consumers, what="consumers", least=0)
    if consumer_mb is not None:
        one = bytes_per_second(consumer_mb, what="throughput of a consumer")
        consumers = max(consumers, ceil_div(throughput, one))
    needs = {
        Need.THROUGHPUT: ceil_div(throughput, partition),
        Need.CONSUMERS: consumers,
        Need.BROKERS: brokers,
    }
    return PartitionPlan(
        throughput_mb=throughput_mb,
        partition_mb=partition_mb,
        consumers=consumers,
        needs=needs,
        spread=spread(
            partitions=max(needs.values()), replication_factor=replication_factor, brokers=brokers
        ),
    )
