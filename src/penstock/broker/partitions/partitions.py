"""The partitions that this broker leads, kept in step with the metadata.

`apply` is told of every change of the image and makes logs, deletes them, and hands on settings
and epochs. Between two changes `find` is two dictionary look-ups. A partition whose log cannot be
opened, or whose directory has failed, is offline (KAFKA_STORAGE_ERROR) and does not stop the
others.
"""

import logging
from collections.abc import Container, Iterable, Iterator
from functools import partial

from penstock.broker.partitions.ack_deadlines import AckDeadlines
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.partitions.syncing import Syncing, run_all
from penstock.log.directory import LogWanted
from penstock.log.errors import CorruptData
from penstock.log.partition_log import PartitionLog
from penstock.metadata.effective import effective_broker, effective_topic
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.settings.broker import BrokerSettings
from penstock.records.compression import Scratch
from penstock.replication.partition import Partition
from penstock.world.errors import DiskError
from penstock.world.ports import Clock, Disk

logger = logging.getLogger(__name__)

FULL_LOGGED_EVERY_MS = 10_000


class Partitions:
    """All partitions of a broker. Iterating goes over them by topic name and index."""

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
            path: Syncing(disk=disk, failed=partial(self.take_offline, path))
            for path in directories.online
        }
        self.ack_deadlines = AckDeadlines(clock)
        self._node_id = node_id
        self._settings = settings
        self._clock = clock
        self._scratch = Scratch()
        self._image = Image()
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[TopicId, dict[int, Partition]] = {}
        self._offline: set[TopicPartition] = set()
        self._full_logged_ms: dict[str, int] = {}  # by directory
        self._damage_reported: dict[str, str] = {}  # the last of each log, by its directory
        self._strays_set_aside = False
        self._closed = False

    def __iter__(self) -> Iterator[Partition]:
        for topic in sorted(self._by_name):
            for _, partition in sorted(self._by_name[topic].items()):
                yield partition

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

    def has_topic(self, name: str) -> bool:
        return name in self._image.topics_by_name

    def topic_name(self, topic_id: TopicId) -> str:
        """The name of a topic; "" when there is none of this id."""
        topic = self._image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker should lead the partition, and cannot."""
        return bool(self._offline) and TopicPartition(topic, index) in self._offline

    def check(self) -> None:
        self.directories.check()
        for name, partitions in self._by_name.items():
            topic = self._image.topics_by_name[name]
            assert self._by_id[topic.topic_id] is partitions
            for index, partition in partitions.items():
                assert partition.name == (name, index)
                assert partition.topic_id == topic.topic_id
                partition.check()

    def apply(self, delta: Delta, image: Image) -> None:
        """Follows a change of the metadata; `image` is the one after it."""
        before, self._image = self._image, image
        if self._closed:
            return  # the next start follows it
        at_start = not self._strays_set_aside
        if at_start:
            self._set_aside_strays()
        self._delete(delta.topics_deleted)
        broker = effective_broker(self._settings, image, self._node_id)
        self.directories.remember_producers(broker.producer_id_expiration_ms)
        to_open: dict[TopicPartition, tuple[LogWanted, PartitionImage]] = {}
        unheard_of = set()
        for topic in (*delta.topics_created, *delta.topics_changed):
            settings = effective_topic(topic.name, image, broker)
            known = before.topics_by_id.get(topic.topic_id)
            known_count = 0 if known is None else len(known.partitions)
            for index, partition in enumerate(topic.partitions):
                if index >= known_count and not at_start:
                    unheard_of.add(TopicPartition(topic.name, index))
                if self._follow(topic, index, partition):
                    wanted = LogWanted(
                        partition=TopicPartition(topic.name, index),
                        topic_id=topic.topic_id,
                        settings=settings,
                    )
                    to_open[wanted.partition] = (wanted, partition)
        self._open(to_open, unheard_of)
        for name in self._reconfigured(delta):
            settings = effective_topic(name, image, broker)
            for led in self._by_name[name].values():
                if led.settings != settings:
                    led.reconfigure(settings)
                    if led.wants_sync:
                        self.want_sync(led)

    def want_sync(self, partition: Partition) -> None:
        """The partition's log is to be synced: acks or readers wait for it, or it is due."""
        self._syncing[self._home(partition)].want(partition)

    async def keep_syncing(self) -> None:
        """Syncs what is wanted until cancelled; directories do not wait for each other."""
        await run_all(self._syncing.values())

    async def sync_wanted(self) -> None:
        """One round of each directory."""
        for syncing in self._syncing.values():
            await syncing.sync_wanted()

    def append_failed(self, partition: Partition, error: DiskError) -> None:
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
            logger.error(
                "directory=%s full=true partition=%s appends are refused until there is room: %s",
                path, partition.name, error,
            )  # fmt: skip

    def damage_found(self, partition: Partition, damage: CorruptData) -> None:
        """A reader met stored bytes that cannot be right; told once, however often it asks."""
        directory = partition.log.directory
        if self._damage_reported.get(directory) != str(damage):
            self._damage_reported[directory] = str(damage)
            logger.error("partition=%s corrupt=true reason=%s", partition.name, damage)

    def take_offline(self, path: str, error: DiskError) -> None:
        """A directory has failed: nothing of it is served until the next start.

        DirectoryLost, which ends the node, when there is no going on without it.
        """
        if path in self.directories.failed:
            return
        lost = [partition for partition in self if self._home(partition) == path]
        logger.critical(
            "directory=%s state=offline partitions=%d reason=%s", path, len(lost), error
        )
        for partition in lost:
            del self._by_name[partition.name.topic][partition.name.partition]
            self._offline.add(partition.name)
            partition.end(offline=True)
        self.directories.fail(path, error.reason)

    def close(self) -> None:
        """Leads no partition any more and ends every wait: the node is stopping.

        The logs are closed by the owner of their directory.
        """
        self._closed = True
        for partition in self:
            partition.end()
        self._by_name.clear()
        self._by_id.clear()

    def _missing(self, topic: TopicImage | None, index: int) -> ErrorCode:
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.partitions[index].leader == self._node_id and not self._closed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _home(self, partition: Partition) -> str:
        """The directory that the partition lies in."""
        return partition.log.directory.rpartition("/")[0]

    def _follow(self, topic: TopicImage, index: int, wanted: PartitionImage) -> bool:
        """Makes one partition what the metadata says it is; whether its log must be opened yet."""
        partitions = self._by_name.get(topic.name, {})
        known = partitions.get(index)
        if wanted.leader != self._node_id:
            self._offline.discard(TopicPartition(topic.name, index))
            if known is not None:
                known.end()
                del partitions[index]
            return False
        if known is None:
            return True
        known.change_replicas(
            leader_epoch=wanted.leader_epoch,
            partition_epoch=wanted.partition_epoch,
            replicas=wanted.replicas,
            in_sync=wanted.isr,
            now_ms=self._clock.monotonic_ms(),
        )
        return False

    def _open(
        self,
        to_open: dict[TopicPartition, tuple[LogWanted, PartitionImage]],
        unheard_of: Container[TopicPartition],
    ) -> None:
        """Leads partitions: with logs open since we led them before, or from disk, or new ones."""
        for name, (wanted, partition) in to_open.items():
            known = self.directories.log_of(name)
            if known is not None:
                known.reconfigure(wanted.settings)
                self._lead(known, partition)
        closed = [wanted for name, (wanted, _) in to_open.items() if not self._leads(name)]
        opened = self.directories.open_logs(
            closed, now_ms=self._clock.now_ms(), unheard_of=unheard_of
        )
        for name, log in opened.items():
            if isinstance(log, PartitionLog):
                self._offline.discard(name)
                self._lead(log, to_open[name][1])
            else:
                self._offline.add(name)
                logger.error("partition=%s state=offline reason=%s", name, log)

    def _leads(self, name: TopicPartition) -> bool:
        return name.partition in self._by_name.get(name.topic, {})

    def _lead(self, log: PartitionLog, wanted: PartitionImage) -> None:
        opened = Partition(
            log,
            leader_epoch=wanted.leader_epoch,
            partition_epoch=wanted.partition_epoch,
            node_id=self._node_id,
            replicas=wanted.replicas,
            in_sync=wanted.isr,
            scratch=self._scratch,
            now_ms=self._clock.monotonic_ms(),
        )
        partitions = self._by_name.setdefault(log.partition.topic, {})
        self._by_id[log.topic_id] = partitions
        partitions[log.partition.partition] = opened
        if opened.wants_sync:  # what a killed node had written and not synced
            self.want_sync(opened)

    def _delete(self, topics: Iterable[TopicImage]) -> None:
        gone: dict[TopicPartition, TopicId] = {}
        for topic in topics:
            self._by_id.pop(topic.topic_id, None)
            for partition in self._by_name.pop(topic.name, {}).values():
                partition.end()
                self._damage_reported.pop(partition.log.directory, None)
            for index in range(len(topic.partitions)):
                gone[TopicPartition(topic.name, index)] = topic.topic_id
        self._offline.difference_update(gone)
        for name, error in self.directories.delete_partitions(gone).items():
            logger.error("partition=%s deleted=false reason=%s", name, error)

    def _set_aside_strays(self) -> None:
        self._strays_set_aside = True
        self.directories.set_aside_strays(
            {
                TopicPartition(topic.name, index): topic.topic_id
                for topic in self._image.topics_by_id.values()
                for index in range(len(topic.partitions))
            }
        )

    def _reconfigured(self, delta: Delta) -> list[str]:
        """The topics here whose settings may have changed: all of them with the broker's own."""
        if any(resource.kind == ResourceKind.BROKER for resource in delta.configs_changed):
            return sorted(self._by_name)
        return [
            resource.name
            for resource in delta.configs_changed
            if resource.kind == ResourceKind.TOPIC and resource.name in self._by_name
        ]
