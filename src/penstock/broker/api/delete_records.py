"""DeleteRecords: a partition begins later than it did.

The offset given becomes the first that can be read; -1 stands for the high watermark. What lies
below is out of reach at once, whole segments of it are dropped from disk.
"""

from collections.abc import Awaitable

from penstock.broker.api_table import Api
from penstock.broker.services import RequestContext, Services
from penstock.broker.turns import Steps, by_turns
from penstock.model.error import ErrorCode
from penstock.model.offset import NO_OFFSET, Offset
from penstock.model.topic_name import INTERNAL_TOPICS
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.world.trouble import DiskError

TO_HIGH_WATERMARK = -1


def handle(
    services: Services, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    return by_turns(_delete_all(services, request))


def refuse(
    request: DeleteRecordsRequest, code: ErrorCode, message: str | None
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_refused(asked, code) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete_all(services: Services, request: DeleteRecordsRequest) -> Steps[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answers = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(answers)
        for asked in topic.partitions:
            answers.partitions.append(_delete(services, topic.name, asked))
            yield
    return response


def _delete(
    services: Services, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    partition = services.partitions.find(topic, asked.partition_index)
    if isinstance(partition, ErrorCode):
        return _refused(asked, partition)
    if topic in INTERNAL_TOPICS:
        return _refused(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    policy = partition.settings.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        return _refused(asked, ErrorCode.POLICY_VIOLATION)
    wanted = asked.offset
    until_offset = partition.high_watermark if wanted == TO_HIGH_WATERMARK else Offset(wanted)
    if not 0 <= until_offset <= partition.high_watermark:
        return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        partition.advance_start(until_offset)
    except DiskError:
        return _refused(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=partition.log.start_offset
    )


def _refused(asked: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=NO_OFFSET, error_code=code
    )


API = Api(
    key=ApiKey.DELETE_RECORDS,
    versions=VersionRange(0, 2),
    request=DeleteRecordsRequest,
    handle=handle,
    refuse=refuse,
)
