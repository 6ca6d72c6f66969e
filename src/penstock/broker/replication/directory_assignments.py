"""In which log directory each replica is: told to the controller where its metadata differs
(AssignReplicasToDirs, KIP-858).

With one directory the controller knows it from the registration. A broker with several chooses one
for each new replica; until that is known, the partition cannot be led again from a directory that
was replaced. One request is outstanding at a time, for all that gathered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, TopicId
from penstock.replication.replica import Replica
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    ReplicaOfDirectory,
    TopicOfDirectory,
)

logger = logging.getLogger(__name__)

REPLICAS_PER_REQUEST_MAX = 2_250  # Apache Kafka's
RETRY_WAIT_MS_MIN = 50
RETRY_WAIT_MS_MAX = 5_000

PartitionId = tuple[TopicId, int]


class DirectoryAssignments:
    """See the module. `directory_ids` are by path; `ask` raises RequestError."""

    def __init__(
        self,
        *,
        ask: Callable[[AssignReplicasToDirsRequest], Awaitable[AssignReplicasToDirsResponse]],
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        image: Callable[[], Image],
        directory_ids: Mapping[str, bytes],
    ) -> None:
        self._ask = ask
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._directory_ids = directory_ids
        self._wanted: dict[PartitionId, bytes] = {}
        self._any_wanted = asyncio.Event()

    def look(self, replicas: Iterable[Replica]) -> None:
        """These have begun to be led or followed here, or have ended."""
        for replica in replicas:
            partition = replica.topic_id, replica.name.partition
            home = self._directory_ids.get(replica.log.directory.rpartition("/")[0])
            if home is not None and not replica.has_ended and self._differs(partition, home):
                self._wanted[partition] = home
                self._any_wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        wait_ms = RETRY_WAIT_MS_MIN
        while True:
            await self._any_wanted.wait()
            asked = self._take()
            if not asked:
                continue
            try:
                response = await self._ask(self._request(asked))
            except RequestError as refusal:
                left = asked
                logger.warning(
                    "directories replicas=%d assigned=false reason=%s", len(asked), refusal
                )
            else:
                left = self._not_assigned(asked, response)
            if not left:
                wait_ms = RETRY_WAIT_MS_MIN
                continue
            self._wanted = {**left, **self._wanted}
            self._any_wanted.set()
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = min(2 * wait_ms, RETRY_WAIT_MS_MAX)

    def _take(self) -> dict[PartitionId, bytes]:
        """What is still to be told, as much as one request may hold."""
        asked: dict[PartitionId, bytes] = {}
        while self._wanted and len(asked) < REPLICAS_PER_REQUEST_MAX:
            partition = next(iter(self._wanted))
            home = self._wanted.pop(partition)
            if self._differs(partition, home):
                asked[partition] = home
        if not self._wanted:
            self._any_wanted.clear()
        return asked

    def _differs(self, partition: PartitionId, home: bytes) -> bool:
        """Whether the metadata has our replica elsewhere; not if it has no replica of ours."""
        topic_id, index = partition
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None or index >= len(topic.partitions):
            return False
        found = topic.partitions[index]
        return self._node_id in found.replicas and found.directory(self._node_id) != home

    def _request(self, asked: Mapping[PartitionId, bytes]) -> AssignReplicasToDirsRequest:
        directories: dict[bytes, dict[TopicId, TopicOfDirectory]] = {}
        for (topic_id, index), home in asked.items():
            topics = directories.setdefault(home, {})
            topic = topics.setdefault(topic_id, TopicOfDirectory(topic_id=topic_id))
            topic.partitions.append(ReplicaOfDirectory(partition_index=index))
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                DirectoryData(id=home, topics=list(topics.values()))
                for home, topics in directories.items()
            ],
        )

    def _not_assigned(
        self, asked: Mapping[PartitionId, bytes], response: AssignReplicasToDirsResponse
    ) -> dict[PartitionId, bytes]:
        assigned = {
            (TopicId(topic.topic_id), one.partition_index)
            for directory in response.directories
            for topic in directory.topics
            for one in topic.partitions
            if one.error_code == ErrorCode.NONE
        }
        return {partition: home for partition, home in asked.items() if partition not in assigned}
