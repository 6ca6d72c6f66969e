"""Tells the controller in which log directory each replica of this broker is (KIP-858).

A broker with one directory has nothing to tell: its new replicas are in that one. With several it
chooses itself. If a directory is lost, the cluster then knows what was in it, and does not let this
broker lead that as if it still had the records.

A replica whose log cannot be opened because it is damaged is told to be in a lost directory: others
lead the partition. Once they do, the log is set aside and copied anew, and its directory told. The
only replica of a partition is not: nobody else could lead, and once it is repaired it leads on.

A replica whose directory has failed is told to be in that one, if the controller does not know it:
the news that the directory has failed does not name its replicas.

A replica that is being moved is assigned to its new directory just before it gets there
(`replication/directory_move` says why). If the old directory fails in between, the replica is
assigned to that one again, and fails with it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import LOST_DIRECTORY, PartitionImage
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    ReplicaOfDirectory,
    TopicOfDirectory,
)

logger = logging.getLogger(__name__)

RETRY_WAIT_S = 0.5

Replica = tuple[TopicId, int]


class DirectoryAssignments:
    """Call `note` after each change of the metadata, and keep `run` running. `ids` are those of the
    directories, by path; `is_damaged` tells whether the log of a replica cannot be opened for that.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        directories: LogDirectories,
        ids: Mapping[str, bytes],
        is_damaged: Callable[[TopicPartition], bool],
        controller: ControllerLink,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._directories = directories
        self._ids = ids
        self._is_damaged = is_damaged
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._image = Image()
        self._wanted: dict[Replica, bytes] = {}
        self._unopened: set[Replica] = set()  # whose logs were not open when last looked at
        # Of replicas whose directory is not where their log is, or who have no log any more.
        self._overridden: dict[Replica, bytes] = {}
        self._news = asyncio.Event()

    def wanted_of(self, name: TopicPartition) -> bytes | None:
        """The directory that the controller is yet to be told of; None: it knows it."""
        topic = self._image.topics_by_name.get(name.topic)
        return None if topic is None else self._wanted.get((topic.topic_id, name.partition))

    def note(self, delta: Delta, image: Image) -> None:
        """The logs of the image are open, unless they cannot be; what is elsewhere than the
        metadata says is told.
        """
        before, self._image = self._image, image
        for topic in (*delta.topics_created, *delta.topics_changed):
            known = before.topics_by_id.get(topic.topic_id)
            for index, partition in enumerate(topic.partitions):
                was = None
                if known is not None and index < len(known.partitions):
                    was = known.partitions[index]
                replica = (topic.topic_id, index)
                if was is partition and replica not in self._unopened:
                    continue
                if self._node_id not in partition.replicas:
                    self._overridden.pop(replica, None)
                self._look(TopicPartition(topic.name, index), replica, partition)
        for topic in delta.topics_deleted:
            for index in range(len(topic.partitions)):
                replica = (topic.topic_id, index)
                self._overridden.pop(replica, None)
                self._wanted.pop(replica, None)
                self._unopened.discard(replica)

    def assign(self, name: TopicPartition, path: str) -> None:
        """The replica is to be in this directory by the metadata, wherever its log is."""
        self._override(name, self._ids[path])

    def withdraw(self, name: TopicPartition) -> None:
        """The replica is where its log is: ends `assign`."""
        self._override(name, None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._wanted:
                await self._tell(self._wanted)
                if self._wanted:
                    await asyncio.sleep(RETRY_WAIT_S)

    async def tell_damaged(self) -> None:
        """Before the broker may lead: else it is elected where it cannot, and others take it for a
        leader.
        """
        while damaged := {
            replica: home for replica, home in self._wanted.items() if home == LOST_DIRECTORY
        }:
            await self._tell(damaged)
            if LOST_DIRECTORY in self._wanted.values():
                await asyncio.sleep(RETRY_WAIT_S)

    async def _tell(self, wanted: Mapping[Replica, bytes]) -> None:
        with suppress(RequestError):  # no controller is active, or does not know us yet
            asked = dict(list(wanted.items())[:DECISION_RECORDS_MAX])
            self._done(asked, await self._controller.ask(self._request(asked)))

    def _override(self, name: TopicPartition, directory: bytes | None) -> None:
        topic = self._image.topics_by_name.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return
        replica = (topic.topic_id, name.partition)
        if directory is None:
            self._overridden.pop(replica, None)
        else:
            self._overridden[replica] = directory
        self._look(name, replica, topic.partitions[name.partition])

    def _look(self, name: TopicPartition, replica: Replica, partition: PartitionImage) -> None:
        self._wanted.pop(replica, None)
        self._unopened.discard(replica)
        if self._node_id not in partition.replicas:
            return
        home = self._overridden.get(replica) or self._home(name)
        is_damaged = self._is_damaged(name)
        if home is None or is_damaged:
            self._unopened.add(replica)
        if is_damaged and len(partition.replicas) > 1:
            home = LOST_DIRECTORY
        if home is not None and home != partition.directory(self._node_id):
            self._wanted[replica] = home
            self._news.set()

    def _home(self, name: TopicPartition) -> bytes | None:
        log = self._directories.log_of(name)
        if log is not None:
            return self._ids.get(log.directory.rpartition("/")[0])
        lost = self._directories.lost_home_of(name)
        return None if lost is None else self._ids.get(lost)

    def _request(self, asked: Mapping[Replica, bytes]) -> AssignReplicasToDirsRequest:
        by_directory: dict[bytes, dict[TopicId, list[ReplicaOfDirectory]]] = {}
        for (topic_id, index), directory in asked.items():
            replicas = by_directory.setdefault(directory, {}).setdefault(topic_id, [])
            replicas.append(ReplicaOfDirectory(partition_index=index))
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicOfDirectory(topic_id=topic_id, partitions=partitions)
                        for topic_id, partitions in topics.items()
                    ],
                )
                for directory, topics in by_directory.items()
            ],
        )

    def _done(self, asked: Mapping[Replica, bytes], reply: AssignReplicasToDirsResponse) -> None:
        for directory in reply.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    replica = (TopicId(topic.topic_id), partition.partition_index)
                    if partition.error_code == ErrorCode.INELIGIBLE_REPLICA:
                        continue  # until the controller has unfenced this broker
                    if self._wanted.get(replica) == asked.get(replica):
                        self._wanted.pop(replica, None)
                    if partition.error_code:
                        logger.warning(
                            "partition=%s-%d assigned=false error_code=%d",
                            topic.topic_id.hex(), partition.partition_index, partition.error_code,
                        )  # fmt: skip
