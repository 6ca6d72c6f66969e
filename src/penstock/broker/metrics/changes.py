"""How often leaders and in-sync sets have changed, by the metadata that this node has followed.

Each change is counted when it is published here: what a node takes up in one step, after it was
away, counts as one. Changes of the metadata are rare, so that this is far from what requests pass.
"""

from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import LeaderRecovery, PartitionImage
from penstock.metrics.family import Source, Steps, counter
from penstock.model.identity import NodeId

SHRINKS = counter(
    "kafka_server_replicamanager_isrshrinks_total",
    "How often a replica left the in-sync set of a partition led here.",
)
EXPANDS = counter(
    "kafka_server_replicamanager_isrexpands_total",
    "How often a replica joined the in-sync set of a partition led here.",
)
ELECTIONS = counter(
    "penstock_leader_elections_total",
    "How often a partition of the cluster got another leader, or one after it had none.",
)
UNCLEAN = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Those of them whose new leader was not in sync, and not eligible either: records may be lost.",
)


class MetadataChanges:
    """`note` each change, after the image has followed it."""

    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id
        self._before: Image | None = None
        self._shrinks = 0
        self._expands = 0
        self._elections = 0
        self._unclean = 0

    @property
    def source(self) -> Source:
        return Source((SHRINKS, EXPANDS, ELECTIONS, UNCLEAN), self._samples)

    def note(self, delta: Delta, image: Image) -> None:
        before, self._before = self._before, image
        if before is None:
            return  # what was so before this node began
        for topic in delta.topics_changed:
            known = before.topics_by_id.get(topic.topic_id)
            if known is None:
                continue
            for was, now in zip(known.partitions, topic.partitions, strict=False):
                if was is not now:
                    self._compare(was, now)

    def _compare(self, was: PartitionImage, now: PartitionImage) -> None:
        if now.leader is not None and now.leader != was.leader:
            self._elections += 1
            # Not by who was in sync in what is known here: that may be old.
            self._unclean += now.leader_recovery_state is LeaderRecovery.RECOVERING
        if now.leader == self._node_id and was.leader is not None:
            self._shrinks += not set(was.isr) <= set(now.isr)
            self._expands += not set(now.isr) <= set(was.isr)

    def _samples(self) -> Steps:
        yield SHRINKS.sample(self._shrinks)
        yield EXPANDS.sample(self._expands)
        yield ELECTIONS.sample(self._elections)
        yield UNCLEAN.sample(self._unclean)
