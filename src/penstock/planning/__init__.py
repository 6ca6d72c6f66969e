"""How many partitions, how much disk and memory: the usual arithmetic of people who run Kafka.

    from penstock.planning import plan_partitions

    plan = plan_partitions(throughput_mb=100, consumers=30, brokers=6)
    plan.partitions     # 30
    plan.decided_by     # Need.CONSUMERS

Pure: values in, values out, PlanError for values that make no plan. A MB is a million bytes, and
every rate is that of a second. docs/planning.md has the formulae.
"""

from penstock.planning.cluster import ClusterPlan, plan_cluster
from penstock.planning.disk import DiskPlan, plan_disk
from penstock.planning.errors import PlanError
from penstock.planning.memory import MemoryPlan, plan_memory
from penstock.planning.metadata import MetadataPlan, plan_metadata
from penstock.planning.partitions import Need, PartitionPlan, plan_partitions
from penstock.planning.spread import Spread

__all__ = [
    "ClusterPlan",
    "DiskPlan",
    "MemoryPlan",
    "MetadataPlan",
    "Need",
    "PartitionPlan",
    "PlanError",
    "Spread",
    "plan_cluster",
    "plan_disk",
    "plan_memory",
    "plan_metadata",
    "plan_partitions",
]
