"""The replicas of this broker, led or followed, kept in step with the metadata.

`apply` is told of every change of the image and makes logs, deletes them, and hands on settings
and epochs. Where another broker leads from now on, or this one does, the replica becomes the other
kind on the same log, and takes over the high watermark. Between two changes `find` is two
dictionary look-ups. A partition whose log cannot be opened, or whose directory has failed, is
offline (KAFKA_STORAGE_ERROR) and does not stop the others; if only room lacked, its log is opened
once there is some (`reopening`); if it is damaged, or cannot be read, the controller is told, so
that others lead it (`directory_assignments`). A directory in which a log cannot be made has failed,
as one in which a write fails.

Invariants:
 1. A partition has at most one replica here, led or followed; its log is open.
 2. What is led or followed here is so by the metadata, and in the same leader epoch.
 3. What waits for room, or is damaged, is offline.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import field
from functools import partial

from penstock.broker.partitions.ack_deadlines import AckDeadlines
from penstock.broker.partitions.log_directories import HeldReplica, LogDirectories
from penstock.broker.partitions.syncing import Syncing, run_all
from penstock.log.directory import LogWanted, OpenError
from penstock.log.errors import CorruptData
from penstock.log.partition_log import PartitionLog
from penstock.metadata.effective import BrokerSettingsInEffect, effective_topic
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import (
    LOST_DIRECTORY,
    LeaderRecovery,
    PartitionImage,
    TopicImage,
)
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.events import DISK_FAILED, DISK_FULL, DISK_READ_DELAYED, DISK_READ_FAILED
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.topic import TopicSettings
from penstock.records.scratch import Scratch
from penstock.replication.follower import Follower
from penstock.replication.partition import Partition
from penstock.replication.replica import Replica
from penstock.replication.topic_traffic import TopicTraffic
from penstock.world.errors import DiskError
from penstock.world.event_log import tell
from penstock.world.ports import Clock, Disk

logger = logging.getLogger(__name__)

FULL_LOGGED_EVERY_MS = 10_000


@dataclass(slots=True, kw_only=True)
class Applied:
    """The replicas that a change of the metadata has changed."""

    # From now on, or in another epoch, or without the change of the in-sync set that was asked for.
    led: list[Partition] = field(default_factory=list)
    # From now on, or with another leader or epoch; and those that have ended.
    followed: list[Follower] = field(default_factory=list)


class Partitions:
    """All replicas of a broker. Iterating goes over them by topic name and index.

    `follower_synced` is called after the sync of a follower's log, `directory_failed` when a
    directory goes offline, with the partitions that were served from it.
    """

    def __init__(
        self,
        *,
        directories: LogDirectories,
        node_id: NodeId,
        settings: BrokerSettings,
        disk: Disk,
        clock: Clock,
    ) -> None:
        self.directories = directories
        self._syncing = {
            path: Syncing(disk=disk, failed=partial(self.take_offline, path), synced=self._synced)
            for path in directories.online
        }
        self.ack_deadlines = AckDeadlines(clock)
        self.follower_synced: Callable[[Follower], None] | None = None
        # Called with a directory that fails, while its logs are open still.
        self.directory_failed: Callable[[str, list[TopicPartition]], None] | None = None
        self._node_id = node_id
        self._in_effect = BrokerSettingsInEffect(settings, node_id)
        self._clock = clock
        self._scratch = Scratch()
        self._image = Image()
        self._by_name: dict[str, dict[int, Partition]] = {}  # those that are led
        self._by_id: dict[TopicId, dict[int, Partition]] = {}  # the same
        self._followed: dict[str, dict[int, Follower]] = {}
        self._offline: set[TopicPartition] = set()
        self._without_room: set[TopicPartition] = set()  # of those, whose disk was full
        self._damaged: set[TopicPartition] = set()  # of those, whose files cannot be read
        self._full_logged_ms: dict[str, int] = {}  # by directory
        self._damage_reported: dict[str, str] = {}  # the last of each log, by its directory
        self._strays_set_aside = False
        self._adopted: list[TopicPartition] = []  # at the start: only a copy of them was left
        self._closed = False
        # At the start the cluster took this broker to have the records of these, and it has none.
        self.lacking: list[TopicPartition] = []
        self.traffic: dict[str, TopicTraffic] = {}  # by topic

    def __iter__(self) -> Iterator[Replica]:
        for topic in sorted({**self._by_name, **self._followed}):
            replicas: dict[int, Replica] = {}
            replicas.update(self._by_name.get(topic, {}))
            replicas.update(self._followed.get(topic, {}))
            for index in sorted(replicas):
                yield replicas[index]

    def led(self) -> list[Partition]:
        """Those that this broker leads."""
        return [one for partitions in self._by_name.values() for one in partitions.values()]

    def followed(self) -> list[Follower]:
        return [one for followers in self._followed.values() for one in followers.values()]

    def find(self, topic: str, index: int) -> Partition | ErrorCode:
        """A partition that this broker leads, by name, or why it cannot serve it."""
        partitions = self._by_name.get(topic)
        if partitions is not None and (found := partitions.get(index)) is not None:
            return found
        return self._missing(self._image.topics_by_name.get(topic), index)

    def find_by_id(self, topic_id: bytes, index: int) -> Partition | ErrorCode:
        partitions = self._by_id.get(TopicId(topic_id))
        if partitions is not None and (found := partitions.get(index)) is not None:
            return found
        topic = self._image.topics_by_id.get(TopicId(topic_id))
        return ErrorCode.UNKNOWN_TOPIC_ID if topic is None else self._missing(topic, index)

    def replica(self, name: TopicPartition) -> Replica | None:
        """The replica of a partition, led or followed here; None when there is none."""
        led = self._by_name.get(name.topic)
        if led is not None and (partition := led.get(name.partition)) is not None:
            return partition
        followed = self._followed.get(name.topic)
        return None if followed is None else followed.get(name.partition)

    def is_in_sync(self, name: TopicPartition) -> bool:
        """Whether the metadata has this broker in the in-sync set of a partition."""
        topic = self._image.topics_by_name.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return False
        return self._node_id in topic.partitions[name.partition].isr

    def has_topic(self, name: str) -> bool:
        return name in self._image.topics_by_name

    def topic_name(self, topic_id: TopicId) -> str:
        """The name of a topic; "" when there is none of this id."""
        topic = self._image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker should lead the partition, and cannot."""
        if not self._offline or TopicPartition(topic, index) not in self._offline:
            return False
        return self._image.topics_by_name[topic].partitions[index].leader == self._node_id

    @property
    def offline_count(self) -> int:
        """How many replicas of this broker are offline, led or not."""
        return len(self._offline)

    def is_damaged(self, name: TopicPartition) -> bool:
        """Whether the replica here is offline because its files cannot be read."""
        return name in self._damaged

    def without_room(self) -> tuple[TopicImage, ...]:
        """The topics of partitions whose logs could not be opened for want of room; `apply` tries
        again with a change that names them.
        """
        if not self._without_room or self._closed:
            return ()
        topics = sorted({name.topic for name in self._without_room})
        return tuple(self._image.topics_by_name[topic] for topic in topics)

    def check(self) -> None:
        self.directories.check()
        assert self._without_room <= self._offline, "invariant 3"
        assert self._damaged <= self._offline, "invariant 3"
        for name, partitions in self._by_name.items():
            topic = self._image.topics_by_name[name]
            assert self._by_id[topic.topic_id] is partitions
            for index, partition in partitions.items():
                assert partition.name == (name, index)
                assert partition.topic_id == topic.topic_id
                assert index not in self._followed.get(name, {}), "invariant 1"
                assert topic.partitions[index].leader == self._node_id, "invariant 2"
                assert topic.partitions[index].leader_epoch == partition.leader_epoch, "invariant 2"
                partition.check()
        for name, followers in self._followed.items():
            topic = self._image.topics_by_name[name]
            for index, follower in followers.items():
                assert (follower.name, follower.topic_id) == ((name, index), topic.topic_id)
                assert topic.partitions[index].leader == follower.leader, "invariant 2"
                assert topic.partitions[index].leader_epoch == follower.leader_epoch, "invariant 2"
                follower.check()

    def apply(self, delta: Delta, image: Image) -> Applied:
        """Follows a change of the metadata; `image` is the one after it."""
        before, self._image = self._image, image
        applied = Applied()
        if self._closed:
            return applied  # the next start follows it
        at_start = not self._strays_set_aside
        if at_start:
            self._put_away()
        self._delete(delta.topics_deleted, applied)
        broker = self._in_effect.in_metadata(image)
        self.directories.remember_producers(broker.producer_id_expiration_ms)
        # Before the in-sync sets: a smaller one may be judged by a `min.insync.replicas` that came
        # with it, and the high watermark moves as soon as the set is known.
        for topic_name in self._reconfigured(delta):
            self._reconfigure(topic_name, effective_topic(topic_name, image, broker))
        to_open: dict[TopicPartition, tuple[LogWanted, PartitionImage]] = {}
        unheard_of: set[TopicPartition] = set()
        given_up: dict[TopicPartition, TopicId] = {}
        for topic in (*delta.topics_created, *delta.topics_changed):
            known = before.topics_by_id.get(topic.topic_id)
            settings = None
            for index, partition in enumerate(topic.partitions):
                name = TopicPartition(topic.name, index)
                was: PartitionImage | None = None
                if known is not None and index < len(known.partitions):
                    was = known.partitions[index]
                if was is partition and name not in self._offline:
                    continue
                had_replica = was is not None and self._node_id in was.replicas
                if self._node_id not in partition.replicas:
                    if had_replica:
                        self._give_up(name, applied)
                        given_up[name] = topic.topic_id
                    continue
                if not had_replica and not at_start:
                    unheard_of.add(name)
                if self._follow(name, partition, applied):
                    if settings is None:
                        settings = effective_topic(topic.name, image, broker)
                    wanted = LogWanted(partition=name, topic_id=topic.topic_id, settings=settings)
                    to_open[name] = (wanted, partition)
        if at_start:
            self._find_lacking(to_open)
        self._open(to_open, unheard_of, applied)
        for name, error in self.directories.delete_partitions(given_up).items():
            logger.error("partition=%s deleted=false reason=%s", name, error)
        if delta.brokers_changed:
            self._look_again()
        return applied

    def want_sync(self, partition: Replica) -> None:
        """The replica's log is to be synced: acks or readers wait for it, or it is due."""
        self._syncing[self._home(partition)].want(partition)

    def note_watermarks(self) -> None:
        """The next save of the checkpoints stores them. A partition without followers needs none:
        all that its log has is committed.
        """
        for partition in self.led():
            if len(partition.followers.replicas) > 1:
                partition.log.note_watermark(partition.high_watermark)
        for follower in self.followed():
            follower.log.note_watermark(follower.high_watermark)

    async def keep_syncing(self) -> None:
        """Syncs what is wanted until cancelled; directories do not wait for each other."""
        await run_all(self._syncing.values())

    async def sync_wanted(self) -> None:
        """One round of each directory."""
        for syncing in self._syncing.values():
            await syncing.sync_wanted()

    def append_failed(self, partition: Replica, error: DiskError) -> None:
        """A disk that is full serves again once there is room; any other failure is its end."""
        path = self._home(partition)
        if not error.full:
            self.take_offline(path, error)
            return
        now_ms = self._clock.monotonic_ms()
        if (
            now_ms - self._full_logged_ms.get(path, now_ms - FULL_LOGGED_EVERY_MS)
            >= FULL_LOGGED_EVERY_MS
        ):
            self._full_logged_ms[path] = now_ms
            tell(logger, DISK_FULL, directory=path, partition=str(partition.name), reason=error)

    def damage_found(self, partition: Replica, damage: CorruptData) -> None:
        """A reader met stored bytes that cannot be right; told once, however often it asks."""
        directory = partition.log.directory
        if self._damage_reported.get(directory) != str(damage):
            self._damage_reported[directory] = str(damage)
            logger.error("partition=%s corrupt=true reason=%s", partition.name, damage)

    def read_failed(self, partition: Replica, error: DiskError) -> None:
        """The disk did not give a reader what is stored; told once, however often it asks. For want
        of descriptors or memory that may happen again at any time.
        """
        if error.full:
            tell(logger, DISK_READ_DELAYED, file=error.path, reason=error.reason)
            return
        directory = partition.log.directory
        if self._damage_reported.get(directory) != str(error):
            self._damage_reported[directory] = str(error)
            tell(logger, DISK_READ_FAILED, file=error.path, reason=error.reason)

    def take_offline(self, path: str, error: DiskError) -> None:
        """A directory has failed: nothing of it is served until the next start.

        DirectoryLost, which ends the node, when there is no going on without it.
        """
        if path in self.directories.failed:
            return
        lost = [partition for partition in self if self._home(partition) == path]
        tell(logger, DISK_FAILED, directory=path, partitions=len(lost), reason=error)
        for partition in lost:
            self._remove(partition)
            self._offline.add(partition.name)
            partition.end(offline=True)
        if self.directory_failed is not None:
            self.directory_failed(path, [partition.name for partition in lost])
        self.directories.fail(path, error.reason)

    def move_to(self, replica: Replica, log: PartitionLog) -> None:
        """The replica is in another directory from now on, in a log all of which is synced."""
        self._syncing[self._home(replica)].forget(replica)
        replica.move_to(log)
        self._synced(replica)

    def close(self) -> None:
        """Leads and follows no partition any more and ends every wait: the node is stopping.

        The logs are closed by the owner of their directory.
        """
        self._closed = True
        self.note_watermarks()
        for replica in self:
            replica.end()
        self._by_name.clear()
        self._by_id.clear()
        self._followed.clear()

    def _missing(self, topic: TopicImage | None, index: int) -> ErrorCode:
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.partitions[index].leader == self._node_id and not self._closed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _leads(self, name: TopicPartition) -> bool:
        """Whether the metadata has this broker as the leader of a partition that exists."""
        partitions = self._image.topics_by_name[name.topic].partitions
        return partitions[name.partition].leader == self._node_id

    def _home(self, partition: Replica) -> str:
        """The directory that the replica lies in."""
        return partition.log.directory.rpartition("/")[0]

    def _synced(self, replica: Replica) -> None:
        replica.synced()
        if isinstance(replica, Follower) and self.follower_synced is not None:
            self.follower_synced(replica)

    def _follow(self, name: TopicPartition, wanted: PartitionImage, applied: Applied) -> bool:
        """Makes one replica what the metadata says it is; whether its log must be opened yet."""
        known = self.replica(name)
        if known is None:
            return True
        leads = wanted.leader == self._node_id
        if isinstance(known, Partition) and leads:
            if wanted.leader_epoch != known.leader_epoch or known.followers.pending is not None:
                applied.led.append(known)
            known.change_replicas(
                leader_epoch=wanted.leader_epoch,
                partition_epoch=wanted.partition_epoch,
                replicas=wanted.replicas,
                replica_count=wanted.replica_count,
                in_sync=wanted.isr,
                recovering=wanted.leader_recovery_state == LeaderRecovery.RECOVERING,
                now_ms=self._clock.monotonic_ms(),
            )
        elif isinstance(known, Follower) and not leads:
            before = known.leader, known.leader_epoch
            known.change_leader(
                leader=wanted.leader,
                leader_epoch=wanted.leader_epoch,
                partition_epoch=wanted.partition_epoch,
            )
            if before != (known.leader, known.leader_epoch):
                applied.followed.append(known)
        else:
            self._end(known, applied)
            self._begin(
                known.log,
                wanted,
                applied,
                high_watermark=known.high_watermark,
                uncommitted_ends=known.uncommitted_ends,
            )
        return False

    def _look_again(self) -> None:
        """Whoever waits for all living replicas looks who lives now."""
        for partition in self.led():
            if partition.observers and len(partition.followers.replicas) > 1:
                partition.start_moved()

    def _find_lacking(
        self, to_open: dict[TopicPartition, tuple[LogWanted, PartitionImage]]
    ) -> None:
        """Notes what would be led without its records, before new logs take their places."""
        self.lacking = [
            name
            for name, (_, partition) in to_open.items()
            if (not self.directories.has(name) or name in self._adopted)
            and (self._node_id in partition.isr or self._node_id in partition.elr)
        ]
        if self.lacking:
            self.directories.forget_starts()

    def _open(
        self,
        to_open: dict[TopicPartition, tuple[LogWanted, PartitionImage]],
        unheard_of: Container[TopicPartition],
        applied: Applied,
    ) -> None:
        """Replicas of logs that are open already, or opened from disk, or new ones."""
        for name, (_, partition) in to_open.items():
            if name in self._damaged and self._is_led_without_us(partition):
                self._copy_anew(name, partition)
        refused = self._open_logs([wanted for wanted, _ in to_open.values()], unheard_of)
        # Directories may have failed meanwhile, with replicas that have changed a moment before.
        applied.led = [partition for partition in applied.led if not partition.has_ended]
        for name, (wanted, partition) in to_open.items():
            if name in refused:
                self._not_opened(name, refused[name])
                continue
            log = self.directories.log_of(name)
            assert log is not None, name
            log.reconfigure(wanted.settings)
            self._begin_opened(log, partition, applied)

    def _open_logs(
        self, wanted: Iterable[LogWanted], unheard_of: Container[TopicPartition]
    ) -> dict[TopicPartition, OpenError]:
        """Opens or makes those that are not open; says why some are not. Directories that take no
        writes go offline; a new log is then made in another one, as in Apache Kafka.
        """
        by_name = {one.partition: one for one in wanted}
        refused: dict[TopicPartition, OpenError] = {}
        asked = [one for one in by_name.values() if not self._is_open(one)]
        while asked:  # with fewer directories each time
            opened = self.directories.open_logs(
                asked, now_ms=self._clock.now_ms(), unheard_of=unheard_of
            )
            failed: dict[str, DiskError] = {}
            for name, log in opened.items():
                refused.pop(name, None)
                if isinstance(log, PartitionLog):
                    continue
                refused[name] = log
                home = self.directories.home_of(name)
                if isinstance(log, DiskError) and not log.full and home is not None:
                    failed.setdefault(home, log)
            for path, error in failed.items():
                self.take_offline(path, error)
            # Those of these directories, also the ones that were open.
            asked = [
                one for name, one in by_name.items() if failed and not self.directories.has(name)
            ]
        return refused

    def _is_open(self, wanted: LogWanted) -> bool:
        known = self.directories.log_of(wanted.partition)
        return known is not None and known.topic_id == wanted.topic_id

    def _is_led_without_us(self, partition: PartitionImage) -> bool:
        """Whether others lead, and nobody counts on the replica here: the controller was told."""
        counted = (*partition.isr, *partition.elr, *partition.last_known_elr)
        return (
            partition.leader is not None
            and self._node_id not in counted
            and partition.directory(self._node_id) == LOST_DIRECTORY
        )

    def _copy_anew(self, name: TopicPartition, partition: PartitionImage) -> None:
        """What is damaged is kept under another name; all records come from the leader."""
        try:
            path = self.directories.set_aside_damaged(name)
        except DiskError as error:
            logger.error("partition=%s damaged=true set_aside=false reason=%s", name, error)
            return
        logger.warning(
            "partition=%s damaged=true set_aside=%s reason=it is copied anew from node %s",
            name, path, partition.leader,
        )  # fmt: skip
        self._forget_offline(name)

    def _begin_opened(self, log: PartitionLog, wanted: PartitionImage, applied: Applied) -> None:
        """What is above the high watermark is looked up in the log, which may be damaged."""
        try:
            self._begin(log, wanted, applied, high_watermark=log.checkpointed_watermark)
        except (DiskError, CorruptData) as error:
            self._not_opened(log.partition, error)
        else:
            if log.partition in self._offline:
                logger.info("partition=%s state=online", log.partition)
            self._forget_offline(log.partition)

    def _not_opened(self, name: TopicPartition, error: OpenError) -> None:
        """Told once: it is tried again with each change of its topic, and when there is room."""
        if name not in self._offline:
            logger.error("partition=%s state=offline reason=%s", name, error)
        self._forget_offline(name)
        self._offline.add(name)
        if isinstance(error, DiskError) and error.full:
            self._without_room.add(name)
        elif isinstance(error, CorruptData) or (
            isinstance(error, DiskError) and self.directories.has(name)
        ):
            # A directory that takes no writes is offline by now: what fails here is a read.
            self._damaged.add(name)

    def _forget_offline(self, name: TopicPartition) -> None:
        """Nothing is known any more that keeps the replica from being served."""
        self._offline.discard(name)
        self._without_room.discard(name)
        self._damaged.discard(name)

    def _begin(
        self,
        log: PartitionLog,
        wanted: PartitionImage,
        applied: Applied,
        *,
        high_watermark: Offset,
        uncommitted_ends: Iterable[tuple[Offset, Offset]] | None = None,
    ) -> None:
        """Leads or follows a partition from now on; `high_watermark` and `uncommitted_ends` as they
        were known here.
        """
        topic, index = log.partition.topic, log.partition.partition
        replica: Replica
        if wanted.leader == self._node_id:
            replica = led = Partition(
                log,
                leader_epoch=wanted.leader_epoch,
                partition_epoch=wanted.partition_epoch,
                node_id=self._node_id,
                replicas=wanted.replicas,
                replica_count=wanted.replica_count,
                in_sync=wanted.isr,
                recovering=wanted.leader_recovery_state == LeaderRecovery.RECOVERING,
                high_watermark=high_watermark,
                uncommitted_ends=uncommitted_ends,
                scratch=self._scratch,
                now_ms=self._clock.monotonic_ms(),
            )
            partitions = self._by_name.setdefault(topic, {})
            self._by_id[log.topic_id] = partitions
            partitions[index] = led
            applied.led.append(led)
        else:
            replica = follower = Follower(
                log,
                leader=wanted.leader,
                leader_epoch=wanted.leader_epoch,
                partition_epoch=wanted.partition_epoch,
                high_watermark=high_watermark,
                uncommitted_ends=uncommitted_ends,
            )
            self._followed.setdefault(topic, {})[index] = follower
            applied.followed.append(follower)
        replica.traffic = self.traffic.setdefault(topic, replica.traffic)
        if replica.wants_sync:  # what a killed node had written and not synced
            self.want_sync(replica)

    def _end(self, replica: Replica, applied: Applied) -> None:
        """The replica is not what it was any more: who waits for it is told."""
        self._remove(replica)
        replica.end()
        if isinstance(replica, Follower):
            applied.followed.append(replica)

    def _remove(self, replica: Replica) -> None:
        topic, index = replica.name.topic, replica.name.partition
        if isinstance(replica, Follower):
            del self._followed[topic][index]
            if not self._followed[topic]:
                del self._followed[topic]
        else:
            del self._by_name[topic][index]

    def _give_up(self, name: TopicPartition, applied: Applied) -> None:
        """This broker has no replica of the partition any more."""
        self._forget_offline(name)
        replica = self.replica(name)
        if replica is not None:
            self._end(replica, applied)
            self._damage_reported.pop(replica.log.directory, None)

    def _reconfigure(self, topic: str, settings: TopicSettings) -> None:
        replicas: list[Replica] = []
        replicas.extend(self._by_name.get(topic, {}).values())
        replicas.extend(self._followed.get(topic, {}).values())
        for replica in replicas:
            if replica.settings == settings:
                continue
            if isinstance(replica, Partition) and not self._leads(replica.name):
                # Deposed by the same metadata: by a smaller `min.insync.replicas` it would commit,
                # and ack, what its successor does not have.
                replica.log.reconfigure(settings)
                continue
            replica.reconfigure(settings)
            if replica.wants_sync:
                self.want_sync(replica)

    def _delete(self, topics: Iterable[TopicImage], applied: Applied) -> None:
        gone: dict[TopicPartition, TopicId] = {}
        for topic in topics:
            for index in range(len(topic.partitions)):
                name = TopicPartition(topic.name, index)
                self._give_up(name, applied)
                gone[name] = topic.topic_id
            self._by_id.pop(topic.topic_id, None)
            self._by_name.pop(topic.name, None)
            self.traffic.pop(topic.name, None)
        for name, error in self.directories.delete_partitions(gone).items():
            logger.error("partition=%s deleted=false reason=%s", name, error)

    def _put_away(self) -> None:
        """At the start: what this broker has no replica of any more, and what belongs to no topic.

        The image is that of the broker's own registration, or a later one, so that it is not older
        than what this broker once knew.
        """
        self._strays_set_aside = True
        here: dict[TopicPartition, TopicId] = {}
        elsewhere: dict[TopicPartition, TopicId] = {}
        replicas: dict[TopicPartition, HeldReplica] = {}
        for topic in self._image.topics_by_id.values():
            for index, partition in enumerate(topic.partitions):
                name = TopicPartition(topic.name, index)
                if self._node_id not in partition.replicas:
                    elsewhere[name] = topic.topic_id
                    continue
                here[name] = topic.topic_id
                replicas[name] = HeldReplica(topic.topic_id, partition.directory(self._node_id))
        self.directories.settle_copies(replicas, now_ms=self._clock.now_ms())
        self._adopted = self.directories.settle_futures(replicas)
        self.directories.delete_removed(elsewhere)
        self.directories.set_aside_strays(here)

    def _reconfigured(self, delta: Delta) -> list[str]:
        """The topics here whose settings may have changed: all of them with the broker's own."""
        if any(resource.kind == ResourceKind.BROKER for resource in delta.configs_changed):
            return sorted({**self._by_name, **self._followed})
        return [
            resource.name
            for resource in delta.configs_changed
            if resource.kind == ResourceKind.TOPIC
            and (resource.name in self._by_name or resource.name in self._followed)
        ]
