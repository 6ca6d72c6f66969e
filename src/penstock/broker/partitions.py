"""The partitions that this broker leads, kept in step with the metadata.

`apply` is told of every change of the image and makes logs, deletes them, and hands on settings
and epochs. Between two changes `find` is two dictionary look-ups. A partition whose log cannot be
opened stays unserved (KAFKA_STORAGE_ERROR) and does not stop the others.
"""

import logging
from collections.abc import Iterator

from penstock.broker.syncing import Syncing
from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.log.trouble import CorruptCheckpoint, CorruptData, TopicIdMismatch
from penstock.metadata.effective import effective_broker, effective_topic
from penstock.metadata.image.image import Delta, Image, ResourceKind
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC, NodeId, TopicId, TopicPartition
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.topic import TopicSettings
from penstock.replication.partition import Partition
from penstock.world.ports import Clock, Disk
from penstock.world.trouble import DiskError

logger = logging.getLogger(__name__)


class Partitions:
    """All partitions of a broker. Iterating goes over them by topic name and index."""

    def __init__(
        self,
        *,
        directory: LogDirectory,
        node_id: NodeId,
        settings: BrokerSettings,
        disk: Disk,
        clock: Clock,
    ) -> None:
        self.directory = directory
        self.syncing = Syncing(disk=disk, failed=self._sync_failed)
        self._node_id = node_id
        self._settings = settings
        self._clock = clock
        self._image = Image()
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[TopicId, dict[int, Partition]] = {}
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

    def check(self) -> None:
        for name, partitions in self._by_name.items():
            topic = self._image.topics_by_name[name]
            assert self._by_id[topic.topic_id] is partitions
            for index, partition in partitions.items():
                assert partition.name == (name, index)
                assert partition.topic_id == topic.topic_id
                partition.check()

    def apply(self, delta: Delta, image: Image) -> None:
        """Follows a change of the metadata; `image` is the one after it."""
        self._image = image
        if self._closed:
            return  # the next start follows it
        if not self._strays_set_aside:
            self._set_aside_strays()
        for topic in delta.topics_deleted:
            self._delete(topic)
        broker = effective_broker(self._settings, image, self._node_id)
        for topic in (*delta.topics_created, *delta.topics_changed):
            settings = effective_topic(topic.name, image, broker)
            for index, partition in enumerate(topic.partitions):
                self._follow(topic, index, partition, settings)
        for name in self._reconfigured(delta):
            settings = effective_topic(name, image, broker)
            for known in self._by_name[name].values():
                if known.settings != settings:
                    known.reconfigure(settings)
                    if known.wants_sync:
                        self.want_sync(known)

    def want_sync(self, partition: Partition) -> None:
        """Acks or readers of the partition wait for a sync of its log."""
        self.syncing.want(partition)

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

    def _follow(
        self, topic: TopicImage, index: int, wanted: PartitionImage, settings: TopicSettings
    ) -> None:
        """Makes one partition what the metadata says it is."""
        partitions = self._by_name.get(topic.name, {})
        known = partitions.get(index)
        if wanted.leader != self._node_id:
            if known is not None:
                known.end()
                del partitions[index]
            return
        followers = tuple(node for node in wanted.isr if node != self._node_id)
        if known is not None:
            known.change_replicas(
                leader_epoch=wanted.leader_epoch,
                replica_count=len(wanted.replicas),
                in_sync_followers=followers,
            )
            return
        log = self._log(TopicPartition(topic.name, index), topic.topic_id, settings)
        if log is None:
            return
        opened = Partition(
            log,
            leader_epoch=wanted.leader_epoch,
            replica_count=len(wanted.replicas),
            in_sync_followers=followers,
        )
        partitions = self._by_name.setdefault(topic.name, {})
        self._by_id[topic.topic_id] = partitions
        partitions[index] = opened
        if opened.wants_sync:  # what a killed node had written and not synced
            self.want_sync(opened)

    def _log(
        self, name: TopicPartition, topic_id: TopicId, settings: TopicSettings
    ) -> PartitionLog | None:
        """The log to lead: one that is open since we led it before, or from disk, or a new one."""
        known = self.directory.logs.get(name)
        if known is not None:
            known.reconfigure(settings)
            return known
        try:
            return self.directory.open_log(name, topic_id, settings, now_ms=self._clock.now_ms())
        except (DiskError, CorruptData, TopicIdMismatch) as trouble:
            logger.error("partition=%s state=offline reason=%s", name, trouble)
            return None

    def _delete(self, topic: TopicImage) -> None:
        self._by_id.pop(topic.topic_id, None)
        for partition in self._by_name.pop(topic.name, {}).values():
            partition.end()
        for index in range(len(topic.partitions)):
            log = self.directory.logs.get(TopicPartition(topic.name, index))
            if log is None:
                continue
            try:
                self.directory.delete(log)
            except DiskError as trouble:
                logger.error("partition=%s deleted=false reason=%s", log.partition, trouble)

    def _sync_failed(self, trouble: DiskError) -> None:
        raise trouble

    def _set_aside_strays(self) -> None:
        """Puts away what belongs to no topic: a crash came between the deletion of a topic and that
        of its files, or the files are from elsewhere. They are renamed, never deleted: were the
        metadata lost, this would be all the data.
        """
        self._strays_set_aside = True
        for name, topic_id in self.directory.partitions_found().items():
            if topic_id is None or isinstance(topic_id, CorruptCheckpoint):
                continue
            if name.topic == METADATA_TOPIC or name in self.directory.logs:
                continue
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None or topic.name != name.topic:
                path = self.directory.set_aside_stray(name)
                logger.warning("partition=%s stray=true set_aside=%s", name, path)

    def _reconfigured(self, delta: Delta) -> list[str]:
        """The topics here whose settings may have changed: all of them with the broker's own."""
        if any(resource.kind == ResourceKind.BROKER for resource in delta.configs_changed):
            return sorted(self._by_name)
        return [
            resource.name
            for resource in delta.configs_changed
            if resource.kind == ResourceKind.TOPIC and resource.name in self._by_name
        ]
