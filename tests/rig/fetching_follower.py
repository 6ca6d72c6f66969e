"""A follower made by hand: it fetches from a broker as the fetcher of another node would."""

import asyncio
from collections.abc import Awaitable
from typing import cast

from penstock.broker.api import fetch as fetch_api
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from rig.services import OTHER, Broker

VERSION = 17


def position(
    offset: int,
    *,
    index: int = 0,
    epoch: int = 0,
    last_epoch: int = -1,
    start: int = 0,
    max_bytes: int = 2**20,
) -> FetchPartition:
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
        log_start_offset=start,
        partition_max_bytes=max_bytes,
    )


class FetchingFollower:
    """One session with the broker."""

    def __init__(
        self, broker: Broker, topic_id: TopicId, *, node: NodeId = OTHER, broker_epoch: int = 1
    ) -> None:
        self.broker = broker
        self.topic_id = topic_id
        self.node = node
        self.broker_epoch = broker_epoch
        self.session_id = 0
        self.epoch = 0

    def request(
        self,
        *named: FetchPartition,
        forget: tuple[int, ...] = (),
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 2**31 - 1,
    ) -> FetchRequest:
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.node, replica_epoch=self.broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=list(named))] if named else [],
            forgotten_topics_data=(
                [ForgottenTopic(topic_id=self.topic_id, partitions=list(forget))] if forget else []
            ),
        )
        self.epoch += 1
        return request

    def fetch(self, *named: FetchPartition, **options: object) -> dict[int, PartitionData]:
        """The answers, by partition, of a fetch that does not wait."""
        request = self.request(*named, **options)  # type: ignore[arg-type]
        return self.taken(self.broker.ask(fetch_api.API, request, FetchResponse, version=VERSION))

    def poll(self, *named: FetchPartition, **options: object) -> "asyncio.Future[FetchResponse]":
        """A fetch that waits; it has begun when this returns."""
        request = self.request(*named, **{"wait_ms": 600_000, **options})  # type: ignore[arg-type]
        sent = self.broker.send(fetch_api.API, request, version=VERSION)
        if isinstance(sent, FetchResponse):
            answered: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
            answered.set_result(sent)
            return answered
        return asyncio.ensure_future(cast(Awaitable[FetchResponse], sent))

    def taken(self, response: FetchResponse) -> dict[int, PartitionData]:
        assert response.error_code == ErrorCode.NONE, response
        self.session_id = response.session_id
        return {
            answer.partition_index: answer
            for topic in response.responses
            for answer in topic.partitions
        }


async def settle() -> None:
    """Whatever can go on does."""
    for _ in range(20):
        await asyncio.sleep(0)
