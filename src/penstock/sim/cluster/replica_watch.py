"""What must hold of replicated partitions at any time, looked at from outside.

1 What one replica takes for committed, every replica has that knows of so many offsets.
2 The high watermark of a replica does not go back while its process lives.
3 A record is acked when as many replicas have it as `min.insync.replicas` says.
4 A replica that could be elected has what is committed, and what was acked. Who could be, the
  metadata say: the in-sync and the eligible replicas.

A power loss takes what was not synced. Where acks do not wait for syncs, an acked record may be
gone once every replica that could be elected has lost power without having caught up in between; so
it may where the directory of the only replica is wiped. Of such a partition nothing more is
required than that it is served, and that its replicas are equal in the end.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.log.partition_log import PartitionLog
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.replication.replica import Replica
from penstock.sim.cluster.history import ClusterHistory
from penstock.sim.cluster.layout import machine
from penstock.sim.errors import Violation
from penstock.sim.sim_node import SimNode

Reached = dict[tuple[TopicId, int], tuple[PartitionLog, Offset]]


class Batch(NamedTuple):
    """Of a partition, once it is below a watermark."""

    epoch: int
    next_offset: int
    checksum: int


class ReplicaWatch:
    def __init__(
        self,
        nodes: Mapping[str, SimNode],
        hosts: Mapping[NodeId, str],
        history: ClusterHistory,
        *,
        in_sync_min: int,
        acks_synced: bool,
    ) -> None:
        """`acks_synced`: acks wait for syncs in all topics, not in those of one replica alone."""
        self._nodes = nodes
        self._hosts = hosts
        self._history = history
        self._in_sync_min = in_sync_min
        self._acks_synced = acks_synced
        self._image = Image()  # the newest that was seen
        self._committed: dict[tuple[TopicId, int], dict[int, Batch]] = {}  # by base offset
        self._committed_until: dict[tuple[TopicId, int], Offset] = {}
        # By machine and life: up to where the log of a partition was compared. A replica that was
        # removed and has come back has another log.
        self._reached: dict[tuple[str, int], Reached] = {}
        self._ended_us: dict[tuple[str, int], int] = {}  # lives that are over
        # By node: its broker epoch when it lost what was not synced, or everything.
        self._powerless: dict[NodeId, int] = {}
        self._wiped: dict[NodeId, int] = {}
        self._lost_us = -1  # when one of them last did

    def look(self) -> None:
        running = {
            node_id: parts
            for node_id, host in self._hosts.items()
            if (parts := self._nodes[host].parts) is not None
        }
        self._see_images()
        for node_id, parts in running.items():
            if parts.broker is not None:
                host = self._hosts[node_id]
                reached = self._reached.setdefault((host, self._nodes[host].lives), {})
                partitions = parts.broker.partitions
                known = self._image.brokers.get(node_id)
                could_lead = (
                    known is not None
                    and not known.fenced
                    and parts.broker.registered_epoch == known.epoch
                )
                for replica in (*partitions.led(), *partitions.followed()):
                    # Most of them are as they were: those are passed over here, without a call.
                    log = replica.log
                    key = log.topic_id, log.partition.partition
                    if reached.get(key) != (log, replica.high_watermark):
                        self._look_at(host, replica, reached)
                    if could_lead and log.end_offset < self._committed_until.get(key, 0):
                        self._look_at_electable(node_id, replica)

    def acked(self, place: TopicPartition, offset: int, *, sent_us: int) -> None:
        """A producer with acks=all is told that its record has this offset."""
        self._see_images()  # replicas that were added since the last look may be those that count
        topic = self._image.topics_by_name.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return
        if place in self._history.may_have_lost:
            return
        key = topic.topic_id, place.partition
        self._committed_until[key] = max(
            Offset(offset + 1), self._committed_until.get(key, Offset(0))
        )
        if self._lost_us >= sent_us:
            return
        found = topic.partitions[place.partition]
        lacking = [
            node_id
            for node_id in found.replicas
            if not self._has_got(machine(node_id), topic.topic_id, place, offset, sent_us=sent_us)
        ]
        enough = min(self._in_sync_min, found.replica_count)
        if len(found.replicas) - len(lacking) < enough:
            raise Violation(
                "acks", f"offset {offset} of {place} is acked, and replicas {lacking} of"
                f" {list(found.replicas)} do not have it",
            )  # fmt: skip

    def life_ended(self, node_id: NodeId, *, now_us: int) -> None:
        """What a process had when it ended, it had for the acks that are still under way."""
        host = self._hosts[node_id]
        life = host, self._nodes[host].lives
        self._ended_us[life] = now_us
        reached = self._reached.setdefault(life, {})
        for place, log in self._nodes[host].last_logs.items():
            key = log.topic_id, place.partition
            if key not in reached or reached[key][0] is not log:
                reached[key] = log, Offset(0)

    def high_watermark(self, host: str, place: TopicPartition) -> Offset:
        """As the replica on that machine knows it."""
        parts = self._nodes[host].parts
        replica = None
        if parts is not None and parts.broker is not None:
            replica = parts.broker.partitions.replica(place)
        if replica is None:
            raise Violation("replicas", f"{host} has no replica of {place}")
        return replica.high_watermark

    def power_lost(self, node_id: NodeId, *, now_us: int) -> None:
        """The machine has lost what was not synced."""
        self._note_loss(node_id, self._powerless, now_us)
        for place, partition in self._partitions():
            # All start unclean, and one of them leads all the same: perhaps the damaged one.
            may_lose = not self._acks_synced or place in self._history.damaged
            if may_lose and len(partition.replicas) > 1 and not self._holders(partition):
                self._history.may_have_lost.add(place)

    def may_be_wiped(self, node_id: NodeId) -> bool:
        """Whether others have all that is replicated there, and can be elected."""
        self.look()
        return all(
            self._holders(partition) - {node_id}
            for _, partition in self._partitions()
            if len(partition.replicas) > 1
        )

    def wiped(self, node_id: NodeId, *, now_us: int) -> None:
        """The machine has lost all records."""
        self._note_loss(node_id, self._wiped, now_us)
        for place, partition in self._partitions():
            if partition.replicas == (node_id,):
                self._history.may_have_lost.add(place)

    def without_leader(self) -> list[TopicPartition]:
        return [place for place, partition in self._partitions() if partition.leader is None]

    def _has_got(
        self, host: str, topic_id: TopicId, place: TopicPartition, offset: int, *, sent_us: int
    ) -> bool:
        """Whether the replica on that machine has a record, or had it when its process ended: that
        cannot be one which was sent later. A replica in which a bit has flipped is copied anew.
        """
        if self._history.damaged.get(place) == host:
            return True
        node = self._nodes[host]
        log = node.last_log_of(place)
        if log is not None and log.topic_id == topic_id:
            return log.end_offset > offset
        for life in range(node.lives, 0, -1):
            left = self._reached.get((host, life), {}).get((topic_id, place.partition))
            if left is not None:
                ended_us = self._ended_us.get((host, life))
                is_older = ended_us is None or sent_us < ended_us
                return is_older and left[0].end_offset > offset
        return False

    def _note_loss(self, node_id: NodeId, losses: dict[NodeId, int], now_us: int) -> None:
        self.look()
        self._lost_us = now_us
        broker = self._image.brokers.get(node_id)
        if broker is not None:
            losses[node_id] = broker.epoch

    def _holders(self, partition: PartitionImage) -> set[NodeId]:
        """Who can be elected, and has what it had when it was last in sync."""
        holders = set()
        for node_id in (*partition.isr, *partition.elr):
            broker = self._image.brokers.get(node_id)
            lost = self._powerless.get(node_id), self._wiped.get(node_id)
            if broker is not None and broker.epoch not in lost:
                holders.add(node_id)
        return holders

    def _see_images(self) -> None:
        for host in self._hosts.values():
            # Of crashing ones too: nobody else may have seen what they saw.
            image = self._nodes[host].last_image
            if image is not None and image.offset > self._image.offset:
                self._image = image

    def _partitions(self) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        for topic in self._image.topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                yield TopicPartition(topic.name, index), partition

    def _look_at(self, name: str, replica: Replica, reached: Reached) -> None:
        place, watermark = replica.name, replica.high_watermark
        key = replica.topic_id, place.partition
        log, before = reached.get(key, (replica.log, Offset(0)))
        if log is not replica.log:
            before = Offset(0)
        if place in self._history.may_have_lost:
            return
        if watermark < before:
            raise Violation(
                "watermark", f"the high watermark of {place} on {name} was {before}, and is"
                f" {watermark}",
            )  # fmt: skip
        if watermark > self._committed_until.get(key, Offset(0)):
            self._committed_until[key] = watermark
        committed = self._committed.setdefault(key, {})
        for batch in replica.log.batches_from(max(before, replica.log.start_offset)):
            if batch.next_offset > watermark:
                break
            found = Batch(batch.leader_epoch, batch.next_offset, batch.checksum)
            known = committed.setdefault(batch.base_offset, found)
            if known != found:
                raise Violation(
                    "replicas", f"{name} has {found} at offset {batch.base_offset} of {place},"
                    f" where {known} was committed",
                )  # fmt: skip
        reached[key] = (replica.log, watermark)

    def _look_at_electable(self, node_id: NodeId, replica: Replica) -> None:
        place = replica.name
        until = self._committed_until.get((replica.topic_id, place.partition), Offset(0))
        if replica.log.end_offset >= until or place in self._history.may_have_lost:
            return
        topic = self._image.topics_by_name.get(place.topic)
        if topic is None or topic.topic_id != replica.topic_id:
            return
        partition = topic.partitions[place.partition]
        if node_id in partition.isr or node_id in partition.elr:
            raise Violation(
                "electable", f"replica {node_id} of {place} could be elected, and ends at"
                f" {replica.log.end_offset}, and all below {until} is committed or acked",
            )  # fmt: skip
