"""Partitions and their replicas over the brokers, against the rule of thumb of 4,000 a broker."""

from penstock.model.lazy_dataclass import dataclass
from penstock.planning.given import brokers_and_factor, ceil_div, count

# The rule of thumb for Apache Kafka, replicas included: docs/scale.md, published limits.
REPLICAS_PER_BROKER_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Evenly. The fullest broker counts."""

    partitions: int
    replication_factor: int
    brokers: int

    @property
    def replicas(self) -> int:
        return self.partitions * self.replication_factor

    @property
    def partitions_per_broker(self) -> int:
        """Which it leads."""
        return ceil_div(self.partitions, self.brokers)

    @property
    def replicas_per_broker(self) -> int:
        """Those that it leads, and those that it follows."""
        return ceil_div(self.replicas, self.brokers)

    @property
    def is_within_limit(self) -> bool:
        return self.replicas_per_broker <= REPLICAS_PER_BROKER_MAX

    @property
    def brokers_min(self) -> int:
        """That none has more replicas than the rule of thumb allows."""
        return max(self.replication_factor, ceil_div(self.replicas, REPLICAS_PER_BROKER_MAX))


def spread(*, partitions: int, replication_factor: int, brokers: int) -> Spread:
    count(partitions, what="partitions")
    brokers_and_factor(brokers=brokers, replication_factor=replication_factor)
    return Spread(partitions=partitions, replication_factor=replication_factor, brokers=brokers)
