"""What must hold of a cluster at any time, looked at every now and then from outside.

1 In one epoch of the quorum one node leads, as all nodes see it, and one controller is active.
2 Metadata logs agree below the high watermark, at all times and on all nodes.
3 Images of two nodes at one offset are equal.
4 The leader of a partition is registered; each process of it that leads has an epoch of its own.
5 A broker that is not fenced knows the metadata up to its own registration.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.identity import METADATA_TOPIC, NodeId, TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.node.build import OpenNode
from penstock.raft.replica import Replica
from penstock.sim.cluster.layout import machine
from penstock.sim.errors import Violation
from penstock.sim.sim_node import SimNode

METADATA_LOG = TopicPartition(METADATA_TOPIC, 0)
IMAGES_KEPT = 500


class Committed(NamedTuple):
    """A batch of the metadata log, once it is below a watermark."""

    epoch: int
    next_offset: int
    checksum: int


class Inspection:
    def __init__(self, nodes: Mapping[str, SimNode]) -> None:
        self.leaders: dict[int, int] = {}  # by epoch of the quorum
        self._nodes = nodes
        self._looks = 0
        self._active: dict[int, str] = {}  # by epoch
        self._committed: dict[int, Committed] = {}  # by base offset
        self._read_until: dict[tuple[str, int], Offset] = {}  # by node and life
        self._images: dict[int, tuple[str, Image]] = {}  # by offset
        self._seen_image: dict[str, Image] = {}
        self._led_by: dict[tuple[TopicId, int, int], int] = {}  # by broker epoch of the leader

    @property
    def leader_changes(self) -> int:
        return max(0, len(self.leaders) - 1)

    def leader(self) -> str | None:
        """The machine of the node that leads the quorum in the latest epoch known."""
        found: tuple[int, str] | None = None
        for name, node in self._nodes.items():
            if node.parts is None:
                continue
            replica = node.parts.local.quorum.replica
            if replica.leads and (found is None or found[0] < replica.epoch):
                found = replica.epoch, name
        return None if found is None else found[1]

    def image_of(self, host: str) -> Image | None:
        """As its clients see it; None while they are not served."""
        node = self._nodes[host]
        if node.parts is None or node.parts.broker is None or not node.up.is_set():
            return None
        return node.parts.broker.services.image

    def look(self) -> None:
        """The invariants of one node at a time: they cost the most, and what breaks one stays."""
        nodes = list(self._nodes.values())
        nodes[self._looks % len(nodes)].check()
        self._looks += 1
        for name, node in self._nodes.items():
            parts = node.parts
            if parts is not None:
                replica = parts.local.quorum.replica
                self._look_at_quorum(name, parts, replica)
                self._look_at_log(name, node, parts, replica.high_watermark)
                self._look_at_image(name, parts.local.image)

    def _look_at_quorum(self, name: str, parts: OpenNode, replica: Replica) -> None:
        epoch, leader = replica.epoch, replica.leader_id
        if leader is not None:
            known = self.leaders.setdefault(epoch, leader)
            if known != leader:
                raise Violation(
                    "two leaders", f"{name} takes {leader} for the leader of epoch {epoch}, which"
                    f" {known} is",
                )  # fmt: skip
        if parts.local.is_active:
            active = self._active.setdefault(epoch, name)
            if active != name:
                raise Violation(
                    "two controllers", f"{active} and {name} are active in epoch {epoch}"
                )

    def _look_at_log(self, name: str, node: SimNode, parts: OpenNode, watermark: Offset) -> None:
        log = parts.log_of(METADATA_LOG)
        if log is None:
            return
        life = name, node.lives
        begin = max(self._read_until.get(life, Offset(0)), log.start_offset)
        if begin >= watermark:
            return
        for batch in log.batches_from(begin):
            if batch.next_offset > watermark:
                break
            found = Committed(batch.leader_epoch, batch.next_offset, batch.checksum)
            known = self._committed.setdefault(batch.base_offset, found)
            if known != found:
                raise Violation(
                    "metadata log", f"{name} has {found} at offset {batch.base_offset}, where"
                    f" {known} was committed",
                )  # fmt: skip
            self._read_until[life] = batch.next_offset

    def _look_at_image(self, name: str, image: Image) -> None:
        if self._seen_image.get(name) is image:
            return
        self._seen_image[name] = image
        image.check()
        for topic in image.topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader is not None:
                    self._look_at_leader(name, image, topic, index, partition)
        for node_id, broker in image.brokers.items():
            if not broker.fenced:
                self._look_at_unfenced(node_id, broker.epoch)
        other, known = self._images.setdefault(image.offset, (name, image))
        if known is not image and (differing := difference_of(known, image)) is not None:
            raise Violation(
                "images", f"{differing} at offset {image.offset} differ between {other} and {name}"
            )
        while len(self._images) > IMAGES_KEPT:
            del self._images[next(iter(self._images))]

    def _look_at_leader(
        self, name: str, image: Image, topic: TopicImage, index: int, partition: PartitionImage
    ) -> None:
        assert partition.leader is not None
        leader = image.brokers.get(partition.leader)
        place = f"{topic.name}-{index}"
        if leader is None:
            raise Violation(
                "leaders", f"{name} takes broker {partition.leader}, which is not registered, for"
                f" the leader of {place}",
            )  # fmt: skip
        if leader.fenced or len(self._nodes) == 1:
            return  # the only broker of a cluster keeps its leader epochs over a clean stop
        led_in = topic.topic_id, index, partition.leader_epoch
        known = self._led_by.setdefault(led_in, leader.epoch)
        if known != leader.epoch:
            raise Violation(
                "leader epochs", f"{place} was led in epoch {partition.leader_epoch} by the process"
                f" of broker {partition.leader} that registered at {known}, and is now by the one"
                f" that did so at {leader.epoch}",
            )  # fmt: skip

    def _look_at_unfenced(self, node_id: NodeId, broker_epoch: int) -> None:
        parts = self._nodes[machine(node_id)].parts
        if parts is None or parts.broker is None:
            return
        own = parts.local.image.offset
        if parts.broker.registered_epoch == broker_epoch and own <= broker_epoch:
            raise Violation(
                "registration", f"broker {node_id} is not fenced, and its image at offset {own}"
                f" does not have its registration at {broker_epoch}",
            )  # fmt: skip


def difference_of(one: Image, other: Image) -> str | None:
    """What differs between two images, if anything does."""
    for name in ("epoch", "brokers", "features", "next_producer_id"):
        if getattr(one, name) != getattr(other, name):
            return name
    if dict(one.topics_by_name) != dict(other.topics_by_name):
        return "topics"
    if {key: dict(value) for key, value in one.configs.items()} != {
        key: dict(value) for key, value in other.configs.items()
    }:
        return "settings"
    return None
