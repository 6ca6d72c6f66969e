"""A node that leads partitions, as a follower meets it on a real connection: it serves Fetch and
ListOffsets from batches in memory, and does wrong what a test asks for.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from penstock.broker.api import api_versions
from penstock.broker.network.server import Server, bind_listeners, socket_options
from penstock.broker.request.api_table import AnyApi, Api, versions_served
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.listener import ListenAddress
from penstock.records.batch import BatchView
from penstock.replication.fetch_session import FetchSessions, Wanted
from penstock.wire.api import ApiKey
from penstock.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup
from rig.produced import produced
from rig.sole_controller import sole_controller

LISTENER = "PLAINTEXT"
HOST = "127.0.0.1"
EARLIEST = -2


class LedLog:
    """The batches of one partition, of one record each."""

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.batches: list[bytes] = []
        self.error = ErrorCode.NONE
        self.high_watermark: int | None = None  # None: everything is committed
        self.diverging: EpochEndOffset | None = None  # what each fetch is told
        self.listed_end: int | None = None  # None: where it ends

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.batches)

    def append(
        self,
        value: bytes = b"value",
        *,
        leader_epoch: int = 0,
        producer: int = -1,
        sequence: int = -1,
    ) -> None:
        data = produced(
            value=value, producer_id=producer, epoch=min(producer, 0), sequence=sequence
        )
        batch = BatchView(data)
        batch.assign(base_offset=Offset(self.end_offset), leader_epoch=LeaderEpoch(leader_epoch))
        self.batches.append(bytes(batch.view))

    def remove_first(self) -> None:
        self.start_offset += 1
        del self.batches[0]

    def read(self, offset: int) -> PartitionData:
        if self.error is not ErrorCode.NONE:
            return PartitionData(error_code=self.error, high_watermark=-1, records=b"")
        if self.diverging is not None:
            return PartitionData(high_watermark=0, diverging_epoch=self.diverging, records=b"")
        if not self.start_offset <= offset <= self.end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
            return PartitionData(error_code=code, high_watermark=-1, records=b"")
        return PartitionData(
            high_watermark=self.high_watermark or self.end_offset,
            log_start_offset=self.start_offset,
            records=b"".join(self.batches[offset - self.start_offset :]),
        )


class LeaderNode:
    """`logs` are by topic id and index. `changed` after each change that fetches may wait for."""

    def __init__(self, node_id: NodeId, world: World) -> None:
        self.node_id = node_id
        self.logs: dict[tuple[TopicId, int], LedLog] = {}
        self.names: dict[str, TopicId] = {}
        self.requests: list[FetchRequest] = []
        self.peers: list[Address] = []  # of each request
        self.server: Server | None = None
        self._world = world
        self._sessions = FetchSessions(random_below=world.entropy.random_below)
        self._change = asyncio.Event()

    @property
    def address(self) -> Address:
        assert self.server is not None
        return self.server.listeners[LISTENER].address

    @property
    def positions(self) -> dict[tuple[TopicId, int], int]:
        """What the followers in its sessions ask for next: that is what they have acked."""
        return {
            (TopicId(one.topic_id), one.asked.partition): one.asked.fetch_offset
            for session in self._sessions.by_id.values()
            for one in session.partitions.values()
        }

    @property
    def follower_starts(self) -> dict[tuple[TopicId, int], int]:
        """Where the logs of the followers in its sessions begin."""
        return {
            (TopicId(one.topic_id), one.asked.partition): one.asked.log_start_offset
            for session in self._sessions.by_id.values()
            for one in session.partitions.values()
        }

    def lead(self, name: str, topic_id: TopicId, *, partitions: int = 1) -> list[LedLog]:
        self.names[name] = topic_id
        logs = [LedLog() for _ in range(partitions)]
        self.logs.update({(topic_id, index): log for index, log in enumerate(logs)})
        return logs

    def changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()

    def lose_sessions(self) -> None:
        """What waits in them is answered."""
        self.forget_sessions()
        self.changed()

    def forget_sessions(self) -> None:
        """As a new process would have; what waits in them waits on."""
        self._sessions = FetchSessions(random_below=self._world.entropy.random_below)

    async def fetch(
        self, services: Services, request: FetchRequest, context: RequestContext
    ) -> FetchResponse:
        self.requests.append(request)
        self.peers.append(context.peer)
        sessions = self._sessions
        fetch = sessions.begin(request, by_topic_id=True, now_ms=0)
        self.changed()  # a fetch that still waits in the session is over
        if isinstance(fetch, ErrorCode):
            return FetchResponse(error_code=fetch)
        while True:
            answers = [self._read(wanted) for wanted in fetch.wanted]
            is_over = fetch.session is not None and fetch.session.epoch != fetch.epoch
            if request.max_wait_ms == 0 or is_over or any(map(is_urgent, answers)):
                break
            if sessions is not self._sessions:
                break
            await self._change.wait()
        finished = sessions.finish(fetch, answers, now_ms=0)
        if isinstance(finished, ErrorCode):
            return FetchResponse(error_code=finished)
        topics = [
            FetchableTopicResponse(topic_id=wanted.topic_id, partitions=[answer])
            for wanted, answer in finished.sent
        ]
        return FetchResponse(session_id=finished.session_id, responses=topics)

    def list_offsets(
        self, services: Services, request: ListOffsetsRequest, context: RequestContext
    ) -> ListOffsetsResponse:
        response = ListOffsetsResponse()
        for asked in request.topics:
            topic = ListOffsetsTopicResponse(name=asked.name)
            response.topics.append(topic)
            for one in asked.partitions:
                log = self.logs[self.names[asked.name], one.partition_index]
                end = log.end_offset if log.listed_end is None else log.listed_end
                offset = log.start_offset if one.timestamp == EARLIEST else end
                topic.partitions.append(
                    ListOffsetsPartitionResponse(partition_index=one.partition_index, offset=offset)
                )
        return response

    async def serve(self, group: TaskGroup, *, port: int = 0) -> None:
        fetch: AnyApi = Api(
            key=ApiKey.FETCH,
            versions=FetchRequest.VERSIONS,
            request=FetchRequest,
            handle=self.fetch,
            refuse=lambda *_: FetchResponse(),
        )
        list_offsets: AnyApi = Api(
            key=ApiKey.LIST_OFFSETS,
            versions=ListOffsetsRequest.VERSIONS,
            request=ListOffsetsRequest,
            handle=self.list_offsets,
            refuse=lambda *_: ListOffsetsResponse(),
        )
        apis = (fetch, list_offsets, api_versions.API)
        settings, nothing = BrokerSettings(), cast(Any, None)
        services = Services(
            node_id=self.node_id, cluster_id="test", settings=settings, world=self._world,
            image=Image(), endpoints=(), controller=nothing, partitions=nothing, groups=nothing,
            transactions=nothing, producer_ids=nothing, fetch_sessions=nothing,
            local=sole_controller(self._world, node_id=self.node_id, settings=settings),
            directory_moves=cast(Any, None),
            served=versions_served(apis),
        )  # fmt: skip
        listening = ListenAddress(listener=LISTENER, host=HOST, port=port)
        bound = await bind_listeners(self._world.network, [listening], socket_options(settings))
        self.server = Server(services, apis, group, bound)
        self.server.open()
        self.server.serve()

    def _read(self, wanted: Wanted) -> PartitionData:
        log = self.logs.get((TopicId(wanted.topic_id), wanted.asked.partition))
        code = ErrorCode.UNKNOWN_TOPIC_ID
        data = (
            PartitionData(error_code=code) if log is None else log.read(wanted.asked.fetch_offset)
        )
        data.partition_index = wanted.asked.partition
        return data


def is_urgent(data: PartitionData) -> bool:
    has_failed = data.error_code != ErrorCode.NONE or data.diverging_epoch is not None
    return bool(data.records) or has_failed


async def until(condition: Callable[[], bool]) -> None:
    """Looks now and then until it holds; the scenario's time limit ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - nothing signals what replicas do
        await asyncio.sleep(0.001)
