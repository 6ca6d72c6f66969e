"""One partition of the topic `orders` on replicas that a test names."""

from penstock.metadata.image.topic import PartitionImage
from penstock.model.identity import NodeId
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from rig.cluster import Cluster


def replicated(*replicas: NodeId, brokers: int = 3, in_sync_min: int = 2, **config: str) -> Cluster:
    """A cluster with one partition of `orders`, led by the first replica."""
    cluster = Cluster(brokers, min_insync_replicas=str(in_sync_min))
    add_topic(cluster, "orders", *replicas, **config)
    return cluster


def add_topic(cluster: Cluster, name: str, *replicas: NodeId, **config: str) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[assignment],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in config.items()
        ],
    )
    cluster.ask(CreateTopicsRequest(topics=[topic]))


def partition_of(cluster: Cluster, name: str = "orders") -> PartitionImage:
    return cluster.topic(name).partitions[0]
