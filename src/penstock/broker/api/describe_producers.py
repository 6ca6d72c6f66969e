"""DescribeProducers: which idempotent producers a partition remembers."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns
from penstock.log.producer_state import ProducerState
from penstock.model.error import ErrorCode
from penstock.model.offset import NO_OFFSET
from penstock.model.sequence import NO_SEQUENCE
from penstock.model.topic_name import topic_name_error
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from penstock.wire.messages.describe_producers import ProducerState as ProducerAnswer


def handle(
    services: Services, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    return by_turns(_describe_all(services, request), services.long_answers)


def refuse(
    request: DescribeProducersRequest, code: ErrorCode, message: str | None
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_refused(index, code, message) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe_all(
    services: Services, request: DescribeProducersRequest
) -> Steps[DescribeProducersResponse]:
    """A partition named many times is answered once: it may have thousands of producers."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    response = DescribeProducersResponse()
    for name, indexes in wanted.items():
        answers = TopicResponse(name=name)
        response.topics.append(answers)
        for index in indexes:
            answer = _describe(services, name, index)
            answers.partitions.append(answer)
            for _ in range(len(answer.active_producers) + 1):
                yield
    return response


def _describe(services: Services, topic: str, index: int) -> PartitionResponse:
    error = topic_name_error(topic)
    if error is not None:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    partition = services.partitions.find(topic, index)
    if isinstance(partition, ErrorCode):
        return _refused(index, partition, None)
    producers = partition.log.producers.by_id.values()
    return PartitionResponse(
        partition_index=index, active_producers=[_answer(producer) for producer in producers]
    )


def _answer(producer: ProducerState) -> ProducerAnswer:
    first_offset = producer.current_txn_first_offset
    return ProducerAnswer(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else NO_SEQUENCE,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=NO_OFFSET if first_offset is None else first_offset,
    )


def _refused(index: int, code: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message)


API = Api(
    key=ApiKey.DESCRIBE_PRODUCERS,
    versions=VersionRange(0, 0),
    request=DescribeProducersRequest,
    handle=handle,
    refuse=refuse,
)
