"""What a data handler needs, on a real disk, with topics made as the metadata would make them."""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.partitions.directory_assignments import DirectoryAssignments
from penstock.broker.partitions.directory_moves import DirectoryMoves
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.partitions.partitions import Applied, Partitions
from penstock.broker.request.api_table import AnyApi
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply, when_filled
from penstock.broker.request.services import Services
from penstock.metadata.image.broker import BrokerImage, Endpoint
from penstock.metadata.image.image import ConfigResource, Delta, Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.broker import parse_broker
from penstock.replication.fetch_session import FetchSessions
from penstock.replication.partition import Partition
from penstock.wire.codec import Part, decode_exact, encode
from penstock.wire.definition import Message
from penstock.wire.header import RequestHeader, decode_response, encode_request
from penstock.world.ports import Address, Disk, FileRange
from penstock.world.real import real_world

NODE = NodeId(1)
OTHER = NodeId(2)
LISTENER = "PLAINTEXT"
M = TypeVar("M", bound=Message)


class Broker:
    """A broker without its network: handlers are called as dispatch calls them."""

    def __init__(
        self,
        path: Path,
        *,
        disk: Disk | None = None,
        directories: tuple[str, ...] = ("data",),
        **settings: str,
    ) -> None:
        self.world = real_world(inline=True)
        if disk is not None:
            self.world = replace(self.world, disk=disk)
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.settings = parse_broker(named)
        self.directories = LogDirectories.open(
            disk=self.world.disk,
            paths=[str(path / name) for name in directories],
            metadata_path=str(path / directories[0]),
            producer_expiry_ms=self.settings.producer_id_expiration_ms,
        )
        self.directory = self.directories.metadata
        self.partitions = Partitions(
            directories=self.directories,
            node_id=NODE,
            settings=self.settings,
            disk=self.world.disk,
            clock=self.world.clock,
        )
        directory_ids = {
            str(path / name): (name.encode() * 16)[:16] for name in directories
        }  # as the metadata have them
        self.assignments = DirectoryAssignments(
            node_id=NODE,
            directories=self.directories,
            ids=directory_ids,
            is_damaged=self.partitions.is_damaged,
            controller=cast(Any, None),  # nobody runs it: nothing is told
            broker_epoch=lambda: 1,
        )
        self.moves = DirectoryMoves(
            node_id=NODE,
            partitions=self.partitions,
            ids=directory_ids,
            assignments=self.assignments,
            disk=self.world.disk,
            clock=self.world.clock,
        )
        self.services = Services(
            node_id=NODE,
            cluster_id="cluster",
            settings=self.settings,
            world=self.world,
            image=Image(brokers={NODE: _broker(NODE, 9092), OTHER: _broker(OTHER, 9093)}),
            endpoints=(),
            controller=cast(Any, None),  # no data handler asks the controller
            partitions=self.partitions,
            groups=cast(Any, None),
            transactions=TransactionCoordinator(  # it leads no shard, and writes markers
                world=self.world,
                partitions=self.partitions,
                controller=cast(Any, None),
                producer_ids=ProducerIds(
                    controller=cast(Any, None), node_id=NODE, broker_epoch=lambda: 1
                ),
                write_to_offsets=lambda *_: ErrorCode.NOT_COORDINATOR,
                settings=self.settings.transactions,
                node_id=NODE,
                links=None,
            ),
            producer_ids=cast(Any, None),
            fetch_sessions=FetchSessions(random_below=self.world.entropy.random_below),
            served={},
            local=cast(Any, None),
            directory_moves=self.moves,
        )
        self.applied = Applied()  # by the last change of the metadata
        self._topics_made = 0
        self._waiting = 0  # for replies that are filled later
        # Of one API, with the type of its replies: requests take it where they can.
        self.takes_shortcut: tuple[Any, type[Message]] | None = None
        self.shortcuts_taken = 0

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        leader: NodeId | None = NODE,
        replicas: tuple[NodeId, ...] = (NODE,),
        leader_epoch: int = 0,
        config: Mapping[str, str] | None = None,
    ) -> TopicId:
        self._topics_made += 1
        topic = TopicImage(
            name=name,
            topic_id=TopicId(self._topics_made.to_bytes(16, "big")),
            partitions=tuple(
                PartitionImage(
                    replicas=replicas,
                    isr=replicas,
                    leader=leader,
                    leader_epoch=LeaderEpoch(leader_epoch),
                    partition_epoch=0,
                )
                for _ in range(partitions)
            ),
        )
        if config:
            self._set_config(name, config)
        self._with_topic(topic)
        self._apply(Delta(topics_created=(topic,)))
        return topic.topic_id

    def delete_topic(self, name: str) -> None:
        image = self.services.image
        topic = image.topics_by_name[name]
        by_name = {other: found for other, found in image.topics_by_name.items() if other != name}
        by_id = {found.topic_id: found for found in by_name.values()}
        self.services.image = replace(image, topics_by_name=by_name, topics_by_id=by_id)
        self._apply(Delta(topics_deleted=(topic,)))

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        self._set_config(name, config)
        self._apply(Delta(configs_changed=(ConfigResource(ResourceKind.TOPIC, name),)))

    def change_topic(self, topic: TopicImage) -> None:
        self._with_topic(topic)
        self._apply(Delta(topics_changed=(topic,)))

    def fence(self, node: NodeId) -> None:
        """Another broker is fenced."""
        image = self.services.image
        fenced = replace(image.brokers[node], fenced=True)
        self.services.image = replace(image, brokers={**image.brokers, node: fenced})
        self._apply(Delta(brokers_changed=(node,)))

    def partition(self, name: str, index: int = 0) -> Partition:
        found = self.partitions.find(name, index)
        assert isinstance(found, Partition), found
        return found

    def send(
        self, api: AnyApi, request: Message, *, version: int, client_id: str | None = "test"
    ) -> Message | Awaitable[Message] | None:
        """Through the codec, both ways, as over the wire."""
        assert version in api.versions, version
        if self.takes_shortcut is not None:
            reply = self._shortcut(request, version)
            if reply is not None:
                return reply
        frame = memoryview(bytearray(encode(request, version)))
        header = RequestHeader(
            api_key=api.key, api_version=version, correlation_id=7, client_id=client_id
        )
        context = RequestContext(
            header=header,
            listener=LISTENER,
            peer=Address(host="127.0.0.1", port=1),
            received_ms=self.world.clock.monotonic_ms(),
        )
        response = api.handle(self.services, decode_exact(api.request, version, frame), context)
        if isinstance(response, PendingReply):
            return self._filled(response)
        return response

    def _shortcut(self, request: Message, version: int) -> Message | Awaitable[Message] | None:
        """From bytes to bytes, if the request has the shape for it."""
        shortcut, answer = self.takes_shortcut or (None, None)
        if shortcut is None or answer is None or request.API_KEY != answer.API_KEY:
            return None
        parts = encode_request(request, version=version, correlation_id=7, client_id="test")
        frame = memoryview(bytearray(joined(parts)[4:]))
        reply = shortcut(self.services, frame, LISTENER, self.world.clock.monotonic_ms())
        frame[:] = bytes(len(frame))  # as the next request would overwrite it
        if reply is None:
            return None
        self.shortcuts_taken += 1
        if isinstance(reply, PendingReply):
            return self._filled_parts(reply, answer, version)
        return decode_response(answer, version, memoryview(joined(reply))[4:])

    async def _filled_parts(
        self, reply: PendingReply, answer: type[Message], version: int
    ) -> Message:
        await when_filled(reply)
        assert reply.parts is not None
        return decode_response(answer, version, memoryview(joined(reply.parts))[4:])

    async def _filled(self, reply: PendingReply) -> Message:
        """Late acks are given up as in a node, for as long as anybody waits."""
        if self._waiting == 0:
            self._late_acks = asyncio.create_task(self.partitions.ack_deadlines.keep())
        self._waiting += 1
        try:
            await when_filled(reply)
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._late_acks.cancel()
        return cast(Message, reply.response)  # type: ignore[attr-defined]  # all that wait have one

    def ask(
        self, api: AnyApi, request: Message, answer: type[M], *, version: int, **context: Any
    ) -> M:
        """The reply to a request; one that must wait is waited for."""
        response = self.send(api, request, version=version, **context)
        if not isinstance(response, Message):
            assert response is not None
            response = asyncio.run(_wait(response))
        assert isinstance(response, answer), response
        return response

    def close(self) -> None:
        self.partitions.close()
        self.directories.close(broker_epoch=1)

    def _with_topic(self, topic: TopicImage) -> None:
        image = self.services.image
        self.services.image = replace(
            image,
            topics_by_name={**image.topics_by_name, topic.name: topic},
            topics_by_id={**image.topics_by_id, topic.topic_id: topic},
        )

    def _set_config(self, name: str, config: Mapping[str, str]) -> None:
        image = self.services.image
        resource = ConfigResource(ResourceKind.TOPIC, name)
        self.services.image = replace(image, configs={**image.configs, resource: config})

    def _apply(self, delta: Delta) -> None:
        self.applied = self.partitions.apply(delta, self.services.image)
        self.assignments.note(delta, self.services.image)
        self.moves.note(self.services.image)
        self.partitions.check()
        self.moves.check()


async def _wait(response: Awaitable[Message]) -> Message:
    return await response


def _broker(node_id: NodeId, port: int) -> BrokerImage:
    return BrokerImage(
        node_id=node_id,
        epoch=1,
        incarnation=bytes(16),
        rack=None,
        endpoints=(Endpoint(listener=LISTENER, host="localhost", port=port),),
        fenced=False,
    )


def joined(parts: list[Part]) -> bytes:
    """What a peer receives."""
    return b"".join(
        part.file.read_at(part.position, part.byte_count)
        if isinstance(part, FileRange)
        else bytes(part)  # type: ignore[arg-type]
        for part in parts
    )
