"""The settings of a topic that decide who may lead its partitions.

`min.insync.replicas` has to be the same for controllers and leaders, or a replica could be called
eligible that lacks records. So it comes from the metadata alone: the topic's own setting, else the
default of the cluster, which is there from the first record on.
"""

from collections.abc import Mapping

from penstock.metadata.effective import CLUSTER_DEFAULT, Configured
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId
from penstock.model.settings.setting import boolean

MIN_IN_SYNC = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


def min_in_sync(metadata: Configured, topic: str, *, replicas: int) -> int:
    """How many of its replicas have to be in sync before a write is acknowledged with acks=all."""
    text = metadata.config(ResourceKind.TOPIC, topic).get(MIN_IN_SYNC)
    if text is None:
        text = metadata.config(ResourceKind.BROKER, CLUSTER_DEFAULT).get(MIN_IN_SYNC, "1")
    return min(int(text), replicas)


def unclean_election_enabled(
    metadata: Configured, topic: str, *, controller_id: NodeId, given: Mapping[str, str]
) -> bool:
    """Whether a replica that may lack records is elected if nobody else can lead. Without a setting
    of the topic, that of the controller decides: its own or the cluster's dynamic one, else what it
    was started with, which is `given`.
    """
    sources = (
        metadata.config(ResourceKind.TOPIC, topic),
        metadata.config(ResourceKind.BROKER, str(controller_id)),
        metadata.config(ResourceKind.BROKER, CLUSTER_DEFAULT),
        given,
    )
    for source in sources:
        if UNCLEAN_ELECTION in source:
            return boolean(source[UNCLEAN_ELECTION])
    return False
