"""What a run of `penstock sim scale` finds. CPU times are real, of this machine; others virtual."""

from dataclasses import dataclass
from enum import Enum


class Change(Enum):
    """One change of the metadata, whose cost must not depend on how many partitions there are."""

    CREATE_TOPIC = "create a topic"  # of one partition
    ALTER_CONFIG = "alter a setting of a topic"
    ALTER_PARTITION = "AlterPartition of one partition"


class Loss(Enum):
    """How a node goes."""

    KILLED = "a broker is killed"  # its machine refuses connections
    SILENT = "a broker loses power"  # nobody is told
    CONTROLLER = "the active controller's node is killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCost:
    """The least of several changes, each until all nodes know it: what else runs on this machine
    takes caches away, and makes others dearer.
    """

    controller_cpu_ms: float  # of the node with the active controller, which is a broker too
    other_cpu_ms: float  # of any other node, on average


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCost:
    """From the loss of a node until every other node's clients are sent to the new leaders."""

    led: int  # partitions that the node led
    replicas: int  # partitions that it had a replica of
    elsewhere_ms: float  # virtual: timers, packets and syncs; computing takes no virtual time
    controller_cpu_ms: float  # of the node with the controller that is active afterwards
    busiest_cpu_ms: float  # of the busiest other node
    back_cpu_ms: float  # of all nodes, from its start until all its replicas are in sync again


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSize:
    image_bytes: int  # memory of the image on one node
    disk_bytes: int  # of one voter: the metadata log and its snapshots
    snapshot_bytes: int
    snapshot_records: int
    snapshot_write_cpu_ms: float
    snapshot_read_cpu_ms: float  # into an image, as a start does


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFigures:
    """A cluster with so many partitions."""

    partitions: int
    topics: int
    create_cpu_ms: float  # of all nodes together, for each partition that was added
    idle_cpu: float  # of one node on average: share of a core
    metadata: MetadataSize
    changes: dict[Change, ChangeCost]
    losses: dict[Loss, LossCost]
