"""A transactional producer made of single requests: what it sends, and when, is up to the test."""

import socket
from collections.abc import Sequence
from typing import Any, cast

from penstock.groups.partitioning import partition_of
from penstock.model.error import ErrorCode
from penstock.wire.definition import Message
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.wire.messages.end_txn import EndTxnRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from rig.dialogue import reply_class
from rig.produced import produced

PATIENCE_SECONDS = 120
TRANSACTION_KEY = 1
NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
ADDS_ITSELF = 12  # the version of Produce from which on it adds its partitions
LATEST = -1
TIMEOUT_MS = 60_000
OFFSETS_PARTITIONS = 50


class Pipeline:
    """One connection: requests may be sent before earlier ones are answered."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
        self._sent = 0
        self._waiting: list[tuple[int, Message, int]] = []

    def send(self, request: Message, *, version: int) -> None:
        self._socket.sendall(self._encoded(request, version))

    def ask_together(self, *requests: tuple[Message, int]) -> list[Any]:
        """Sends requests with their versions in one chunk; all replies, in order."""
        assert not self._waiting
        self._socket.sendall(b"".join(self._encoded(*request) for request in requests))
        return [self.reply() for _ in requests]

    def _encoded(self, request: Message, version: int) -> bytes:
        self._sent += 1
        parts = encode_request(request, version=version, correlation_id=self._sent, client_id="raw")
        self._waiting.append((self._sent, request, version))
        return b"".join(cast(bytes, part) for part in parts)

    def reply(self) -> Any:
        """To the oldest request that has none yet."""
        number, request, version = self._waiting.pop(0)
        size = int.from_bytes(self._receive(4), "big")
        frame = memoryview(self._receive(size))
        assert int.from_bytes(frame[:4], "big") == number
        return decode_response(reply_class(request), version, frame)

    def ask(self, request: Message, *, version: int) -> Any:
        assert not self._waiting
        self.send(request, version=version)
        return self.reply()

    def close(self) -> None:
        self._socket.close()

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            more = self._socket.recv(count - len(received))
            if not more:
                raise ConnectionError("the broker closed the connection")
            received += more
        return bytes(received)


class RawProducer:
    """Knows its identity, and nothing of what it has written."""

    def __init__(self, bootstrap: str, transactional_id: str = "raw") -> None:
        self.pipeline = Pipeline(bootstrap)
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1

    def init(self) -> None:
        find = FindCoordinatorRequest(
            coordinator_keys=[self.transactional_id], key_type=TRANSACTION_KEY
        )
        while self.pipeline.ask(find, version=4).coordinators[0].error_code in NOT_YET:
            pass
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        answer = self.pipeline.ask(request, version=5)
        while answer.error_code in NOT_YET:
            answer = self.pipeline.ask(request, version=5)
        assert answer.error_code == ErrorCode.NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, topic: str, *partitions: int) -> ErrorCode:
        """AddPartitionsToTxn, as clients of generation 1 send it."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = self.pipeline.ask(request, version=3)
        [told] = answer.results_by_topic_v3_and_below
        return ErrorCode(told.results_by_partition[0].partition_error_code)

    def produce_request(
        self,
        topic: str,
        *partitions: int,
        sequence: int = 0,
        count: int = 2,
        epoch: int | None = None,
    ) -> ProduceRequest:
        batch = produced(
            count,
            producer_id=self.producer_id,
            epoch=self.epoch if epoch is None else epoch,
            sequence=sequence,
            transactional=True,
        )
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[
                        PartitionProduceData(index=index, records=bytes(batch))
                        for index in partitions or (0,)
                    ],
                )
            ],
        )

    def produce(
        self, topic: str, *partitions: int, version: int = ADDS_ITSELF, **batch: Any
    ) -> list[tuple[ErrorCode, int]]:
        """Error and base offset of each partition."""
        self.pipeline.send(self.produce_request(topic, *partitions, **batch), version=version)
        return self.produced()

    def produced(self) -> list[tuple[ErrorCode, int]]:
        [topic] = self.pipeline.reply().responses
        return [(ErrorCode(one.error_code), one.base_offset) for one in topic.partition_responses]

    def end_request(self, *, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    def end(self, *, committed: bool = True, version: int = 5) -> ErrorCode:
        answer = self.pipeline.ask(self.end_request(committed=committed), version=version)
        if answer.error_code == ErrorCode.NONE and version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def commit_offsets(self, group: str, topic: str, *, offset: int) -> int:
        """TxnOffsetCommit, which adds the partition of the group's offsets; which one that is."""
        find = FindCoordinatorRequest(coordinator_keys=[group])
        while self.pipeline.ask(find, version=4).coordinators[0].error_code in NOT_YET:
            pass
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        while True:
            [told] = self.pipeline.ask(request, version=5).topics[0].partitions
            if told.error_code not in NOT_YET:
                break
        assert told.error_code == ErrorCode.NONE, told
        return partition_of(group, partition_count=OFFSETS_PARTITIONS)

    def fetch_offset(self, group: str, topic: str) -> int:
        """A committed offset, or the error of one who wants it stable."""
        wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True
        )
        [told] = self.pipeline.ask(request, version=9).groups[0].topics[0].partitions
        if told.error_code != ErrorCode.NONE:
            return ErrorCode(told.error_code)
        return int(told.committed_offset)


def marker_request(
    producer_id: int,
    epoch: int,
    *places: tuple[str, Sequence[int]],
    committed: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=committed,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=list(indexes))
                    for topic, indexes in places
                ],
            )
        ]
    )


def latest(pipeline: Pipeline, topic: str, *, committed: bool, index: int = 0) -> int:
    """Where a reader of committed records, or of all, finds the end."""
    asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST, current_leader_epoch=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if committed else 0,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    [answer] = pipeline.ask(request, version=7).topics[0].partitions
    assert answer.error_code == ErrorCode.NONE, answer
    return int(answer.offset)


def open_offsets(pipeline: Pipeline, topic: str, index: int = 0) -> dict[int, int]:
    """Where the open transactions of a partition began, by producer, as DescribeProducers says."""
    asked = TopicRequest(name=topic, partition_indexes=[index])
    [answer] = (
        pipeline.ask(DescribeProducersRequest(topics=[asked]), version=0).topics[0].partitions
    )
    assert answer.error_code == ErrorCode.NONE, answer
    return {
        one.producer_id: one.current_txn_start_offset
        for one in answer.active_producers
        if one.current_txn_start_offset >= 0
    }
