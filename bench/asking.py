"""A client that costs nothing to start: one blocking socket, one question at a time."""

import socket
import time
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.definition import Message
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

Reply = TypeVar("Reply", bound=Message)

CREATE_VERSION = 7
DELETE_VERSION = 6
FETCH_VERSION = 17
FIND_COORDINATOR_VERSION = 4
INIT_PRODUCER_ID_VERSION = 5
METADATA_VERSION = 12
PRODUCE_VERSION = 13
TRANSACTION = 1  # the type of a coordinator's key
TRANSACTION_TIMEOUT_MS = 60_000
WAIT_SECONDS_MAX = 60
PAUSE_SECONDS = 0.01


class Refused(Exception):
    """A broker answered, and not with what the bench needs."""


class Asking:
    def __init__(self, address: tuple[str, int]) -> None:
        self._connection = socket.create_connection(address, WAIT_SECONDS_MAX)
        self._replies = self._connection.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._replies.close()
        self._connection.close()

    def ask(self, request: Message, reply: type[Reply], version: int) -> Reply:
        parts = encode_request(request, version=version, correlation_id=1, client_id="bench")
        self._connection.sendall(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]
        size = int.from_bytes(self._replies.read(4), "big")
        return decode_response(reply, version, memoryview(self._replies.read(size)))

    def create_topic(self, name: str, partitions: int, *, replicas: int = 1) -> bytes:
        """The new topic's id. Its partitions may take a moment to be led: see `await_served`."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        reply = self.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, CREATE_VERSION)
        created = reply.topics[0]
        if created.error_code:
            raise Refused(f"{name}: error {created.error_code}, {created.error_message}")
        return created.topic_id

    def await_served(self, topic_id: bytes, partitions: Sequence[int]) -> None:
        """Until each of these partitions can be read and written at this node."""
        await_true("a leader", lambda: self._is_served(topic_id, partitions))

    def leaders(self, name: str) -> list[str] | None:
        """Where the leader of each partition is; None until all replicas are in sync."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        reply = self.ask(request, MetadataResponse, METADATA_VERSION)
        brokers = {one.node_id: f"{one.host}:{one.port}" for one in reply.brokers}
        partitions = sorted(reply.topics[0].partitions, key=lambda one: one.partition_index)
        if not partitions or any(
            one.leader_id not in brokers or set(one.isr_nodes) != set(one.replica_nodes)
            for one in partitions
        ):
            return None
        return [brokers[one.leader_id] for one in partitions]

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
        reply = self.ask(request, DeleteTopicsResponse, DELETE_VERSION)
        if reply.responses[0].error_code:
            raise Refused(f"{name} was not deleted: error {reply.responses[0].error_code}")

    def produce_one(self, topic_id: bytes) -> None:
        """Until one record is acked."""
        batch = build_batch([Record(key=b"k", value=b"v", timestamp_ms=int(time.time() * 1000))])
        data = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])

        def is_acked() -> bool:
            reply = self.ask(request, ProduceResponse, PRODUCE_VERSION)
            return reply.responses[0].partition_responses[0].error_code == 0

        await_true("an ack", is_acked)

    def await_transactions(self, transactional_id: str) -> None:
        """Until the coordinator of transactions is there, and gives this id its identity."""
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])

        def is_served() -> bool:
            reply = self.ask(find, FindCoordinatorResponse, FIND_COORDINATOR_VERSION)
            found = reply.coordinators[0]
            if found.error_code:
                return False
            with Asking((found.host, found.port)) as coordinator:
                return coordinator.has_identity(transactional_id)

        await_true("a coordinator", is_served)

    def has_identity(self, transactional_id: str) -> bool:
        """Whether a transactional id is given its next identity, when asked once."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        reply = self.ask(request, InitProducerIdResponse, INIT_PRODUCER_ID_VERSION)
        return not reply.error_code

    def _is_served(self, topic_id: bytes, partitions: Sequence[int]) -> bool:
        asked = [FetchPartition(partition=index, partition_max_bytes=1) for index in partitions]
        topic = FetchTopic(topic_id=topic_id, partitions=asked)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[topic])
        reply = self.ask(request, FetchResponse, FETCH_VERSION)
        answers: Sequence[int] = [
            answer.error_code for found in reply.responses for answer in found.partitions
        ]
        return len(answers) == len(partitions) and not any(answers)


def first_asking(address: tuple[str, int], is_running: Callable[[], bool]) -> Asking:
    """A connection as soon as there is somebody to connect to."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        try:
            return Asking(address)
        except ConnectionRefusedError:
            if not is_running() or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def await_true(what: str, is_so: Callable[[], bool], seconds_max: float = WAIT_SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds_max
    while not is_so():
        if time.monotonic() > deadline:
            raise Refused(f"waited {seconds_max:g} s for {what}")
        time.sleep(PAUSE_SECONDS)
