"""How much memory a broker needs: what it holds itself, and the page cache for what is read soon.

The figures of a node are measured (bench/README.md, docs/scale.md). The page cache is Apache
Kafka's own rule of thumb: the writes of 30 seconds, from which readers that keep up are served.
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.planning.given import bytes_per_second, ceil_div
from penstock.planning.metadata import MetadataPlan

NODE_BYTES = 52 << 20  # bench/README.md, many partitions: an idle node that tells metrics
REPLICA_BYTES = 10 << 10  # bench/README.md, many partitions: 9.4 KiB after work
PAGE_CACHE_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Of each broker."""

    node_bytes: int
    replicas_bytes: int
    image_bytes: int
    page_cache_bytes: int

    @property
    def process_bytes(self) -> int:
        return self.node_bytes + self.replicas_bytes + self.image_bytes

    @property
    def whole_bytes(self) -> int:
        return self.process_bytes + self.page_cache_bytes


def plan_memory(*, throughput_mb: float, metadata: MetadataPlan) -> MemoryPlan:
    placed = metadata.spread
    written = bytes_per_second(throughput_mb, what="throughput") * placed.replication_factor
    return MemoryPlan(
        node_bytes=NODE_BYTES,
        replicas_bytes=placed.replicas_per_broker * REPLICA_BYTES,
        image_bytes=metadata.image_bytes,
        page_cache_bytes=ceil_div(written * PAGE_CACHE_SECONDS, placed.brokers),
    )
