"""What the metadata of partitions take: every node holds all of them.

The figures are measured with 1,000 to 40,000 partitions of three replicas each (docs/scale.md).
Fewer replicas are planned as three; more, in proportion.
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.planning.given import ceil_div
from penstock.planning.partitions import BROKERS_DEFAULT, REPLICATION_FACTOR_DEFAULT
from penstock.planning.spread import Spread, spread

# docs/scale.md: "A partition with three replicas takes 124 bytes of a snapshot and 473 bytes of
# each node's memory."
SNAPSHOT_BYTES = 124
IMAGE_BYTES = 473
# docs/scale.md, "log and snapshots on the disk of a voter": 0.3 MiB for 1,000 partitions, 8.8 MiB
# for 40,000. The first is the larger one for a partition.
VOTER_BYTES = 315
REPLICAS_MEASURED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPlan:
    spread: Spread
    snapshot_bytes: int
    image_bytes: int  # in the memory of each node
    voter_bytes: int  # log and snapshots on the disk of each controller


def plan_metadata(
    *,
    partitions: int,
    brokers: int = BROKERS_DEFAULT,
    replication_factor: int = REPLICATION_FACTOR_DEFAULT,
) -> MetadataPlan:
    """Of all partitions of a cluster."""
    placed = spread(partitions=partitions, replication_factor=replication_factor, brokers=brokers)

    def of_all(partition_bytes: int) -> int:
        replicas = max(replication_factor, REPLICAS_MEASURED)
        return ceil_div(partitions * partition_bytes * replicas, REPLICAS_MEASURED)

    return MetadataPlan(
        spread=placed,
        snapshot_bytes=of_all(SNAPSHOT_BYTES),
        image_bytes=of_all(IMAGE_BYTES),
        voter_bytes=of_all(VOTER_BYTES),
    )
