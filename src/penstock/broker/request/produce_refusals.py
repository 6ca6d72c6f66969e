"""What a producer is told of batches that were not written."""

import logging
from typing import NoReturn

from penstock.broker.request.leader_hints import LeaderHint, leader_hint
from penstock.broker.request.services import Services
from penstock.model.error import CloseConnection, ErrorCode, RequestError
from penstock.model.events import PRODUCE_REFUSED
from penstock.model.identity import TopicId
from penstock.model.offset import NO_OFFSET
from penstock.records.batch import BatchHeader
from penstock.records.errors import InvalidBatch, NotOneBatch
from penstock.replication.leader import Refusal
from penstock.replication.partition import Partition
from penstock.wire.codec import Buffer
from penstock.wire.header import RequestHeader
from penstock.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)

# What an operator wants to know of; most other errors are the client's own.
LOGGED = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_PRODUCER_EPOCH})
CODES_WITHOUT_START_OFFSET = frozenset(
    {ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
)


def refused(
    index: int, code: ErrorCode, message: str | None = None, *, start_offset: int = NO_OFFSET
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        error_message=message,
        base_offset=NO_OFFSET,
        log_start_offset=start_offset,
    )


def refuse(request: ProduceRequest, code: ErrorCode, message: str | None) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    refused(data.index, code, message) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def refuse_version(version: int, *, has_reply: bool) -> NoReturn:
    """Such versions are advertised all the same: older librdkafka else drops compression."""
    message = f"Produce {version} carries a format of records that is written no longer"
    if not has_reply:
        raise CloseConnection(message)
    raise RequestError(ErrorCode.UNSUPPORTED_VERSION, message)


def refused_append(
    index: int, refusal: Refusal, partition: Partition, header: RequestHeader
) -> PartitionProduceResponse:
    code, message = refusal.code, refusal.message
    if code in LOGGED:
        tell(
            logger,
            PRODUCE_REFUSED,
            partition=str(partition.name),
            error=code.name,
            reason=message,
            client_id=header.client_id,
            correlation_id=header.correlation_id,
        )
    return refused(index, code, message, start_offset=partition.log.start_offset)


def refused_batch(
    index: int, error: InvalidBatch, partition: Partition
) -> PartitionProduceResponse:
    """Like Kafka, tells the start offset unless the batch as a whole is beyond discussion."""
    told = error.code not in CODES_WITHOUT_START_OFFSET and not isinstance(error, NotOneBatch)
    start_offset = partition.log.start_offset if told else NO_OFFSET
    answer = refused(index, error.code, error.message, start_offset=start_offset)
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=message)
        for record, message in error.record_errors
    ]
    return answer


def refuse_unverified_writer(answer: PartitionProduceResponse, records: Buffer | None) -> None:
    """Who names no transaction may not write in one, whatever state that is in."""
    if answer.error_code == ErrorCode.INVALID_TXN_STATE:
        assert records is not None
        # Bytes may follow the batch: they are ignored, as Kafka ignores them.
        if BatchHeader(memoryview(records)).is_transactional:
            answer.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            answer.log_start_offset = NO_OFFSET


def name_leaders(services: Services, response: ProduceResponse, *, listener: str) -> None:
    """Who asked the wrong broker is told the right one along with the error (KIP-951)."""
    hints: dict[int, LeaderHint] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            name = topic.name or services.partitions.topic_name(TopicId(topic.topic_id))
            hint = leader_hint(services.image, name, answer.index, listener=listener)
            if hint is not None:
                hints[hint.node_id] = hint
                answer.current_leader = LeaderIdAndEpoch(
                    leader_id=hint.node_id, leader_epoch=hint.leader_epoch
                )
    response.node_endpoints = [
        NodeEndpoint(node_id=hint.node_id, host=hint.host, port=hint.port, rack=hint.rack)
        for hint in hints.values()
    ]


def close_on_error(responses: list[TopicProduceResponse]) -> None:
    """Where there is no reply, the sender notices that its connection is gone."""
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NONE:
                raise CloseConnection(
                    f"produce with acks=0 to {topic.name}-{answer.index} "
                    f"failed: {ErrorCode(answer.error_code).name}"
                )
