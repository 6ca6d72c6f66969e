"""How much disk the records of a topic take.

Retention deletes whole segments, and never the one that is written to, so each partition keeps up
to a segment more than the retention asks for.
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.planning.errors import PlanError
from penstock.planning.given import (
    RETENTION_SECONDS_MAX,
    brokers_and_factor,
    bytes_per_second,
    ceil_div,
    count,
)
from penstock.planning.partitions import BROKERS_DEFAULT, REPLICATION_FACTOR_DEFAULT

RETENTION_SECONDS_DEFAULT = 7 * 86_400  # log.retention.hours
SEGMENT_BYTES_DEFAULT = 1 << 30  # log.segment.bytes
ROLL_SECONDS = 7 * 86_400  # log.roll.hours: a segment is ended by its age too
FILL_PERCENT_DEFAULT = 80  # of a disk; the rest is for growth, and for replicas that move


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskPlan:
    throughput_mb: float
    retention_seconds: int
    replication_factor: int
    brokers: int
    fill_percent: int
    replica_bytes: int  # what the retention keeps of the whole topic, once
    segments_bytes: int  # kept beyond that, also once

    @property
    def stored_bytes(self) -> int:
        """On all brokers."""
        return (self.replica_bytes + self.segments_bytes) * self.replication_factor

    @property
    def broker_bytes(self) -> int:
        return ceil_div(self.stored_bytes, self.brokers)

    @property
    def disk_bytes(self) -> int:
        """Of a broker: with room left."""
        return ceil_div(self.broker_bytes * 100, self.fill_percent)


def plan_disk(
    *,
    throughput_mb: float,
    retention_seconds: int = RETENTION_SECONDS_DEFAULT,
    brokers: int = BROKERS_DEFAULT,
    replication_factor: int = REPLICATION_FACTOR_DEFAULT,
    partitions: int | None = None,
    segment_bytes: int = SEGMENT_BYTES_DEFAULT,
    fill_percent: int = FILL_PERCENT_DEFAULT,
) -> DiskPlan:
    """The throughput is what is stored, compressed. Without `partitions` there is one a broker."""
    throughput = bytes_per_second(throughput_mb, what="throughput")
    brokers_and_factor(brokers=brokers, replication_factor=replication_factor)
    partitions = count(brokers if partitions is None else partitions, what="partitions")
    count(segment_bytes, what="bytes of a segment")
    if not 0 < retention_seconds <= RETENTION_SECONDS_MAX:
        raise PlanError(f"retention is {retention_seconds} s: expected a second to 100 years")
    if not 0 < fill_percent <= 100:
        raise PlanError(f"fill is {fill_percent} %: expected 1 to 100")
    return DiskPlan(
        throughput_mb=throughput_mb,
        retention_seconds=retention_seconds,
        replication_factor=replication_factor,
        brokers=brokers,
        fill_percent=fill_percent,
        replica_bytes=throughput * retention_seconds,
        segments_bytes=min(partitions * segment_bytes, throughput * ROLL_SECONDS),
    )
