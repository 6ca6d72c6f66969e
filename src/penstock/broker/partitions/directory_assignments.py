"""Tells the controller in which log directory each replica of this broker is (KIP-858).

A broker with one directory has nothing to tell: its new replicas are in that one. With several it
chooses itself. If a directory is lost, the cluster then knows what was in it, and does not let this
broker lead that as if it still had the records.

A replica whose log cannot be opened because it is damaged is told to be in a lost directory: others
lead the partition, until the log is repaired, or removed and copied again, and its directory told.
The only replica of a partition is not: nobody else could lead, and once it is repaired it leads on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import LOST_DIRECTORY
from penstock.model.error import RequestError
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
        self._news = asyncio.Event()

    def note(self, delta: Delta, image: Image) -> None:
        """The logs of the image are open, unless they cannot be; what is elsewhere than the
        metadata says is told.
        """
        before, self._image = self._image, image
        for topic in delta.topics_deleted:
            self._unopened.difference_update(
                (topic.topic_id, index) for index in range(len(topic.partitions))
            )
        for topic in (*delta.topics_created, *delta.topics_changed):
            known = before.topics_by_id.get(topic.topic_id)
            for index, partition in enumerate(topic.partitions):
                was = None
                if known is not None and index < len(known.partitions):
                    was = known.partitions[index]
                replica = (topic.topic_id, index)
                if was is partition and replica not in self._unopened:
                    continue
                self._wanted.pop(replica, None)
                self._unopened.discard(replica)
                if self._node_id not in partition.replicas:
                    continue
                name = TopicPartition(topic.name, index)
                home, is_damaged = self._home(name), self._is_damaged(name)
                if home is None or is_damaged:
                    self._unopened.add(replica)
                if is_damaged and len(partition.replicas) > 1:
                    home = LOST_DIRECTORY
                if home is not None and home != partition.directory(self._node_id):
                    self._wanted[replica] = home
        if self._wanted:
            self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._wanted:
                with suppress(RequestError):  # no controller is active, or does not know us yet
                    asked = dict(list(self._wanted.items())[:DECISION_RECORDS_MAX])
                    self._done(asked, await self._controller.ask(self._request(asked)))
                if self._wanted:
                    await asyncio.sleep(RETRY_WAIT_S)

    def _home(self, name: TopicPartition) -> bytes | None:
        log = self._directories.log_of(name)
        return None if log is None else self._ids.get(log.directory.rpartition("/")[0])

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
                    if self._wanted.get(replica) == asked.get(replica):
                        self._wanted.pop(replica, None)
                    if partition.error_code:
                        logger.warning(
                            "partition=%s-%d assigned=false error_code=%d",
                            topic.topic_id.hex(), partition.partition_index, partition.error_code,
                        )  # fmt: skip
