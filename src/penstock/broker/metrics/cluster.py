"""The whole cluster, by the metadata: told by every controller, active or not.

Those that are not active may be a moment behind; to count once, take the maximum.
"""

from penstock.broker.controller.local_controller import LocalController
from penstock.metrics.family import Source, Steps, gauge

PREFIX = "kafka_controller_kafkacontroller_"
ACTIVE = gauge(
    f"{PREFIX}activecontrollercount", "1 on the active controller, 0 on every other node."
)
TOPICS = gauge(f"{PREFIX}globaltopiccount", "Topics of the cluster.")
PARTITIONS = gauge(f"{PREFIX}globalpartitioncount", "Partitions of the cluster.")
OFFLINE = gauge(f"{PREFIX}offlinepartitionscount", "Partitions of the cluster without a leader.")
IMBALANCE = gauge(
    f"{PREFIX}preferredreplicaimbalancecount",
    "Partitions of the cluster whose leader is not the first of their replicas.",
)
BROKERS = gauge(f"{PREFIX}activebrokercount", "Brokers that are registered and not fenced.")
FENCED = gauge(f"{PREFIX}fencedbrokercount", "Brokers that are registered and fenced.")


def active_metrics(local: LocalController) -> Source:
    """Of every node."""

    def samples() -> Steps:
        yield ACTIVE.sample(local.is_active)

    return Source((ACTIVE,), samples)


def cluster_metrics(local: LocalController) -> Source:
    def samples() -> Steps:
        image = local.image
        partitions = offline = imbalance = 0
        for topic in image.topics_by_id.values():
            for partition in topic.partitions:
                partitions += 1
                offline += partition.leader is None
                imbalance += partition.leader not in (None, partition.replicas[0])
                yield None
        fenced = sum(broker.fenced for broker in image.brokers.values())
        yield TOPICS.sample(len(image.topics_by_id))
        yield PARTITIONS.sample(partitions)
        yield OFFLINE.sample(offline)
        yield IMBALANCE.sample(imbalance)
        yield BROKERS.sample(len(image.brokers) - fenced)
        yield FENCED.sample(fenced)

    return Source((TOPICS, PARTITIONS, OFFLINE, IMBALANCE, BROKERS, FENCED), samples)
