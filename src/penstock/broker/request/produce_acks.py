"""Replies to producers that wait for acks: filled by the queue of each partition.

    SingleAck      one batch to one partition: the reply is encoded when the batch is appended
    ProduceAcks    any other request: counts down, and is encoded when the last ack has come

A queue tells each ack its outcome once: NONE, or why the batch that is in the log may not be on all
in-sync replicas. See `replication/ack_queue` and `broker/partitions/ack_deadlines`.
"""

import logging
from typing import Final

from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.produce_refusals import name_leaders
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.model.events import ACK_FAILED
from penstock.model.identity import TopicId
from penstock.model.offset import NO_OFFSET, Offset
from penstock.replication.ack_queue import AckQueue, PendingAck
from penstock.wire.api import ApiKey
from penstock.wire.codec import decode
from penstock.wire.header import RequestHeader, encode_response
from penstock.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)

CURRENT_LEADER_FROM: Final = 10
REPLY_HEADER_BYTES: Final = 9  # of a flexible version: size, correlation id, no tags


def note_failed_acks(
    services: Services, response: ProduceResponse, correlation_id: int | None
) -> None:
    """Counts and tells of the partitions whose batches were appended, and not acknowledged."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NONE and answer.base_offset != NO_OFFSET:
                name = topic.name or services.partitions.topic_name(TopicId(topic.topic_id))
                traffic = services.partitions.traffic.get(name)
                if traffic is not None:
                    traffic.unacked_produces += 1
                tell(
                    logger,
                    ACK_FAILED,
                    partition=f"{name}-{answer.index}",
                    error=ErrorCode(answer.error_code).name,
                    correlation_id=correlation_id,
                )


class SingleAck(PendingReply):
    """See the module."""

    __slots__ = ("_ack", "_listener", "_pending", "_queue", "_services", "_version")

    def __init__(
        self,
        services: Services,
        queue: AckQueue,
        end_offset: Offset,
        *,
        ack: bytes,
        version: int,
        listener: str,
        deadline_ms: int,
    ) -> None:
        super().__init__()
        self._services = services
        self._ack = ack
        self._version = version
        self._listener = listener
        self._queue = queue
        self._pending: PendingAck = queue.add(end_offset, self, deadline_ms)
        services.partitions.ack_deadlines.note(queue, deadline_ms)

    def done(self, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self.fill([self._ack])
            return
        frame = memoryview(self._ack)
        correlation_id = int.from_bytes(frame[4:8], "big")
        response = decode(ProduceResponse, self._version, frame, REPLY_HEADER_BYTES)
        response.responses[0].partition_responses[0].error_code = code
        note_failed_acks(self._services, response, correlation_id)
        if self.timed is not None and self.timed.trace is not None:
            self.timed.trace.failed(code)
        if self._services.request_stats is not None:
            self._services.request_stats.note_error(ApiKey.PRODUCE, code)
        if self._version >= CURRENT_LEADER_FROM and code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            name_leaders(self._services, response, listener=self._listener)
        self.fill(encode_response(correlation_id, response, self._version))

    def abandon(self) -> None:
        super().abandon()
        self._queue.discard(self._pending)


class PartitionAck:
    """One partition's share in `ProduceAcks`."""

    __slots__ = ("_answer", "_whole", "pending", "queue")

    def __init__(
        self,
        whole: "ProduceAcks",
        answer: PartitionProduceResponse,
        queue: AckQueue,
        end_offset: Offset,
        deadline_ms: int,
    ) -> None:
        self._whole = whole
        self._answer = answer
        self.queue = queue
        self.pending: PendingAck = queue.add(end_offset, self, deadline_ms)

    def done(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            self._answer.error_code = code
        self._whole.one_done(code)


class ProduceAcks(PendingReply):
    """See the module. Each ack is waited for as soon as its batch is appended: what is appended
    next may fail, and end partitions before it. Without a header the response is not encoded:
    somebody waits for it.
    """

    __slots__ = (
        "_acks",
        "_has_failed",
        "_header",
        "_left",
        "_listener",
        "_moved",
        "_services",
        "_version",
        "response",
    )

    def __init__(
        self,
        services: Services,
        *,
        header: RequestHeader | None,
        version: int,
        listener: str,
    ) -> None:
        super().__init__()
        self.response = ProduceResponse()
        self._services = services
        self._header = header
        self._version = version
        self._listener = listener
        self._acks: list[PartitionAck] = []
        self._left = 1  # acks that are waited for, and `begin`
        self._moved = False  # a partition is led elsewhere
        self._has_failed = False  # an ack did not come

    def wait_for(
        self,
        answer: PartitionProduceResponse,
        queue: AckQueue,
        end_offset: Offset,
        *,
        deadline_ms: int,
    ) -> None:
        self._left += 1
        self._acks.append(PartitionAck(self, answer, queue, end_offset, deadline_ms))
        self._services.partitions.ack_deadlines.note(queue, deadline_ms)

    def begin(self, response: ProduceResponse) -> bool:
        """All batches of the request are appended. False when no ack is waited for any more."""
        self.response = response
        self._left -= 1
        if self._left > 0:
            return True
        self._name_leaders()
        return False

    def one_done(self, code: ErrorCode) -> None:
        self._moved = self._moved or code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code is not ErrorCode.NONE:
            self._has_failed = True
        self._left -= 1
        if self._left > 0:
            return
        self._name_leaders()
        header = self._header
        if self._has_failed:
            correlation_id = None if header is None else header.correlation_id
            note_failed_acks(self._services, self.response, correlation_id)
        if header is None:
            self.fill([])
        else:
            if self._services.request_stats is not None:
                self._services.request_stats.note_errors(ApiKey.PRODUCE, self.response)
            self.fill(encode_response(header.correlation_id, self.response, header.api_version))

    def abandon(self) -> None:
        super().abandon()
        for ack in self._acks:
            ack.queue.discard(ack.pending)

    def _name_leaders(self) -> None:
        if self._moved and self._version >= CURRENT_LEADER_FROM:
            name_leaders(self._services, self.response, listener=self._listener)
