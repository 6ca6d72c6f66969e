"""The replicas of this broker: how many there are, which it leads, and how well they are copied."""

from collections.abc import Callable

from penstock.broker.partitions.partitions import Partitions
from penstock.metadata.image.image import Image
from penstock.metrics.family import Source, Steps, gauge
from penstock.model.identity import NodeId
from penstock.model.offset import NO_OFFSET
from penstock.replication.partition import Partition

PREFIX = "kafka_server_replicamanager_"
REPLICAS = gauge(f"{PREFIX}partitioncount", "Replicas of this broker, led or followed.")
LEADERS = gauge(f"{PREFIX}leadercount", "Partitions that this broker leads.")
UNDER_REPLICATED = gauge(
    f"{PREFIX}underreplicatedpartitions", "Partitions led here with replicas that are not in sync."
)
UNDER_MIN = gauge(
    f"{PREFIX}underminisrpartitioncount",
    "Partitions led here that refuse acks=all: fewer are in sync than min.insync.replicas.",
)
AT_MIN = gauge(
    f"{PREFIX}atminisrpartitioncount",
    "Partitions led here with just as many replicas in sync as min.insync.replicas.",
)
OFFLINE = gauge(f"{PREFIX}offlinereplicacount", "Replicas of this broker whose logs cannot be had.")
REASSIGNING = gauge(
    f"{PREFIX}reassigningpartitions", "Partitions led here that a reassignment moves."
)
PRODUCERS = gauge(
    f"{PREFIX}produceridcount", "Producers that the logs here remember, counted once a partition."
)
OPEN_IN_LOGS = gauge(
    "penstock_partitions_with_open_transactions",
    "Partitions led here in which at least one transaction is open.",
)
FOLLOWER_LAG = gauge(
    "penstock_follower_lag_records_max",
    "How far a follower is behind this leader, in the partition led here where that is most.",
    "follower",
)
FAMILIES = (
    REPLICAS,
    LEADERS,
    UNDER_REPLICATED,
    UNDER_MIN,
    AT_MIN,
    OFFLINE,
    REASSIGNING,
    PRODUCERS,
    OPEN_IN_LOGS,
    FOLLOWER_LAG,
)


class LedCounts:
    """Counts over the partitions that are led."""

    def __init__(self) -> None:
        self.under_replicated = 0
        self.under_min = 0
        self.at_min = 0
        self.reassigning = 0
        self.open_in_logs = 0
        self.lags: dict[NodeId, int] = {}  # by follower

    def add(self, partition: Partition, image: Image) -> None:
        followers, log = partition.followers, partition.log
        in_sync = len(followers.in_sync)
        self.under_replicated += in_sync < followers.replica_count
        self.under_min += not followers.are_enough
        self.at_min += in_sync == min(followers.in_sync_min, followers.replica_count)
        topic = image.topics_by_name.get(partition.name.topic)
        index = partition.name.partition
        if topic is not None and index < len(topic.partitions):
            self.reassigning += topic.partitions[index].is_reassigned
        self.open_in_logs += log.producers.first_open_offset is not None
        for node in followers.replicas:
            state = followers.get(node)
            if state is not None and state.end_offset != NO_OFFSET:
                lag = max(log.end_offset - state.end_offset, 0)
                self.lags[node] = max(lag, self.lags.get(node, 0))


def replica_metrics(partitions: Partitions, image: Callable[[], Image]) -> Source:
    def samples() -> Steps:
        led, followed = partitions.led(), partitions.followed()
        counts = LedCounts()
        producers = 0
        for partition in led:
            counts.add(partition, image())
            producers += len(partition.log.producers.by_id)
            yield None
        for follower in followed:
            producers += len(follower.log.producers.by_id)
            yield None
        yield REPLICAS.sample(len(led) + len(followed))
        yield LEADERS.sample(len(led))
        yield UNDER_REPLICATED.sample(counts.under_replicated)
        yield UNDER_MIN.sample(counts.under_min)
        yield AT_MIN.sample(counts.at_min)
        yield OFFLINE.sample(partitions.offline_count)
        yield REASSIGNING.sample(counts.reassigning)
        yield PRODUCERS.sample(producers)
        yield OPEN_IN_LOGS.sample(counts.open_in_logs)
        for node, lag in sorted(counts.lags.items()):
            yield FOLLOWER_LAG.sample(lag, str(node))

    return Source(FAMILIES, samples)
