"""DeleteRecords: a partition begins later than it did.

The offset given becomes the first that can be read; -1 stands for the high watermark. What lies
below is out of reach at once, whole segments of it are dropped from disk.
"""

from collections.abc import Awaitable
from dataclasses import field

from penstock.broker.request.api_table import Api
from penstock.broker.request.services import RequestContext, Services
from penstock.broker.request.yielding import Steps, by_turns
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import NO_OFFSET, Offset
from penstock.model.topic_name import INTERNAL_TOPICS
from penstock.replication.partition import Partition
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

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


@dataclass(slots=True, kw_only=True)
class Asked:
    """Where a partition is to begin, and the answers that tell it: it may be named twice."""

    until_offset: Offset
    answers: list[DeleteRecordsPartitionResult] = field(default_factory=list)


def _delete_all(services: Services, request: DeleteRecordsRequest) -> Steps[DeleteRecordsResponse]:
    """Looks at each partition in turn, and then moves the starts of all in one step."""
    response = DeleteRecordsResponse()
    starts: dict[Partition, Asked] = {}
    for topic in request.topics:
        answers = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(answers)
        for asked in topic.partitions:
            answers.partitions.append(_plan(services, topic.name, asked, starts))
            yield
    _move(services, starts)
    return response


def _plan(
    services: Services,
    topic: str,
    asked: DeleteRecordsPartition,
    starts: dict[Partition, Asked],
) -> DeleteRecordsPartitionResult:
    """Adds to the starts to be moved, all in one step, or tells why the partition's is not."""
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
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index)
    start = starts.setdefault(partition, Asked(until_offset=until_offset))
    start.until_offset = max(start.until_offset, until_offset)
    start.answers.append(answer)
    return answer


def _move(services: Services, starts: dict[Partition, Asked]) -> None:
    """One write for all; what has gone since it was looked at is told so."""
    failed = services.partitions.directories.advance_starts(
        {
            partition.name: start.until_offset
            for partition, start in starts.items()
            if not partition.has_ended
        }
    )
    for partition, start in starts.items():
        code = ErrorCode.NONE
        if partition.has_ended:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif partition.name in failed:
            code = ErrorCode.KAFKA_STORAGE_ERROR
        for answer in start.answers:
            answer.error_code = code
            answer.low_watermark = NO_OFFSET if code else partition.log.start_offset


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
