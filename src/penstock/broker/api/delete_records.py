"""DeleteRecords: a partition begins later than it did.

The offset given becomes the first that can be read; -1 stands for the high watermark. What lies
below is out of reach at once, whole segments of it are dropped from disk. The reply waits until all
living replicas have followed, and tells the least start among them: the low watermark.
"""

from collections.abc import Awaitable
from dataclasses import field

from penstock.broker.partitions.waiting import satisfied
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
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
    moved = by_turns(_delete_all(services, request), services.long_answers)
    if not isinstance(moved, Moved):
        return _when_moved(services, request, moved)
    if _all_followed(services, moved):
        return _tell(services, moved)
    return _when_followed(services, request, moved)


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


@dataclass(slots=True, kw_only=True)
class Moved:
    """The reply so far, and the partitions whose starts have moved here."""

    response: DeleteRecordsResponse
    starts: dict[Partition, Asked]


def _delete_all(services: Services, request: DeleteRecordsRequest) -> Steps[Moved]:
    """Looks at each partition in turn, and then moves the starts of all in one step."""
    response = DeleteRecordsResponse()
    starts: dict[Partition, Asked] = {}
    for topic in request.topics:
        answers = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(answers)
        for asked in topic.partitions:
            answers.partitions.append(_plan(services, topic.name, asked, starts))
            yield
    return Moved(response=response, starts=_move(services, starts))


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


async def _when_moved(
    services: Services, request: DeleteRecordsRequest, moving: Awaitable[Moved]
) -> DeleteRecordsResponse:
    return await _when_followed(services, request, await moving)


async def _when_followed(
    services: Services, request: DeleteRecordsRequest, moved: Moved
) -> DeleteRecordsResponse:
    await satisfied(
        moved.starts, lambda: _all_followed(services, moved), wait_ms=request.timeout_ms
    )
    return _tell(services, moved)


def _tell(services: Services, moved: Moved) -> DeleteRecordsResponse:
    for partition, start in moved.starts.items():
        code, low_watermark = ErrorCode.NONE, NO_OFFSET
        if partition.has_ended:
            is_lost = partition.is_offline
            code = ErrorCode.KAFKA_STORAGE_ERROR if is_lost else ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            low_watermark = _low_watermark(services, partition)
            if low_watermark < start.until_offset:
                code = ErrorCode.REQUEST_TIMED_OUT
        for answer in start.answers:
            answer.error_code = code
            answer.low_watermark = low_watermark
    return moved.response


def _all_followed(services: Services, moved: Moved) -> bool:
    return all(
        partition.has_ended or _low_watermark(services, partition) >= start.until_offset
        for partition, start in moved.starts.items()
    )


def _low_watermark(services: Services, partition: Partition) -> Offset:
    """Of the replicas on living brokers: the others truncate, or are told, when they come back."""
    brokers = services.image.brokers

    def is_live(node: NodeId) -> bool:
        broker = brokers.get(node)
        return broker is not None and not broker.fenced

    return partition.low_watermark(is_live)


def _move(services: Services, starts: dict[Partition, Asked]) -> dict[Partition, Asked]:
    """One write for all; what has gone since it was looked at is told so. Returns what has moved,
    of which followers are told.
    """
    moved: dict[Partition, Asked] = {}
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
        else:
            moved[partition] = start
            partition.start_moved()
        for answer in start.answers:
            answer.error_code = code
            answer.low_watermark = NO_OFFSET
    return moved


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
