"""ListOffsets: where to begin reading, by time or by one of the special timestamps.

>= 0   the first record of at least this time        -4   earliest on this broker's own disk
-1     latest: where a reader of this isolation      -5   latest tiered: -1, nothing is tiered
       level would wait for new records              -6   earliest not yet uploaded: -1, nothing
-2     earliest                                           is uploaded
-3     the record of the largest time

A leader that was just elected may know less of the high watermark than its predecessor. Until it
has reached the start of the new leader epoch, consumers are not told where the log ends for them
(KIP-207): OFFSET_NOT_AVAILABLE, for which old versions have LEADER_NOT_AVAILABLE. Other brokers see
all of the log, and a request for debugging (replica -2) also that of a replica that is followed.
"""

from collections import Counter
from collections.abc import Awaitable, Iterable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns
from penstock.log.errors import CorruptData
from penstock.log.reading import TimedOffset
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import TopicPartition
from penstock.model.offset import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from penstock.records.layout import NO_TIMESTAMP
from penstock.replication.leader import check_leader_epoch
from penstock.replication.partition import Partition
from penstock.replication.replica import Replica
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from penstock.world.errors import DiskError

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SERVED_FROM = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
CONSUMER = -1
DEBUGGING = -2
OFFSET_NOT_AVAILABLE_FROM = 5
READ_COMMITTED = 1
ISOLATION_LEVELS = (0, READ_COMMITTED)


def handle(
    services: Services, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    if request.isolation_level not in ISOLATION_LEVELS:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    return by_turns(_answer_all(services, request, context), services.long_answers)


def refuse(
    request: ListOffsetsRequest, code: ErrorCode, message: str | None
) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_refused(asked, code) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer_all(
    services: Services, request: ListOffsetsRequest, context: RequestContext
) -> Steps[ListOffsetsResponse]:
    twice = _named_twice(request.topics)
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answers)
        for asked in topic.partitions:
            if (topic.name, asked.partition_index) in twice:
                answer = _refused(asked, ErrorCode.INVALID_REQUEST)
            else:
                answer = _answer(services, request, topic.name, asked, context)
            answers.partitions.append(answer)
            yield
    return response


def _named_twice(topics: Iterable[ListOffsetsTopic]) -> set[tuple[str, int]]:
    count = Counter(
        (topic.name, asked.partition_index) for topic in topics for asked in topic.partitions
    )
    return {named for named, times in count.items() if times > 1}


def _answer(
    services: Services,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsPartition,
    context: RequestContext,
) -> ListOffsetsPartitionResponse:
    version = context.header.api_version
    if asked.timestamp < 0 and version < SERVED_FROM.get(asked.timestamp, version + 1):
        return _refused(asked, ErrorCode.UNSUPPORTED_VERSION)
    replica = _replica(services, request, TopicPartition(topic, asked.partition_index))
    if isinstance(replica, ErrorCode):
        return _refused(asked, replica)
    code = check_leader_epoch(asked=asked.current_leader_epoch, known=replica.leader_epoch)
    if code != ErrorCode.NONE:
        return _refused(asked, code)
    try:
        found = _find(replica, asked.timestamp, until_offset=_end_for(replica, request))
    except CorruptData as damage:
        services.partitions.damage_found(replica, damage)
        return _refused(asked, ErrorCode.CORRUPT_MESSAGE)
    except DiskError as error:
        services.partitions.read_failed(replica, error)
        return _refused(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    if found is None:
        if request.replica_id == CONSUMER and _may_go_back(replica):
            known = version >= OFFSET_NOT_AVAILABLE_FROM
            code = ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE
            return _refused(asked, code)
        found = _untimed(NO_OFFSET, None)
        if asked.timestamp == LATEST:
            found = _untimed(_end_for(replica, request), replica.leader_epoch)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=NO_LEADER_EPOCH if found.leader_epoch is None else found.leader_epoch,
    )


def _replica(
    services: Services, request: ListOffsetsRequest, name: TopicPartition
) -> Replica | ErrorCode:
    found = services.partitions.find(name.topic, name.partition)
    if isinstance(found, ErrorCode) and request.replica_id == DEBUGGING:
        return services.partitions.replica(name) or found
    return found


def _may_go_back(replica: Replica) -> bool:
    """Whether a reader may have seen more of the log than this leader can show by now."""
    return isinstance(replica, Partition) and replica.high_watermark < replica.epoch_start_offset


def _end_for(replica: Replica, request: ListOffsetsRequest) -> Offset:
    """Where the log ends for the one who asks: another broker sees all of it."""
    if request.replica_id != CONSUMER:
        return replica.log.end_offset
    if request.isolation_level == READ_COMMITTED:
        return replica.last_stable_offset
    return replica.high_watermark


def _find(replica: Replica, timestamp: int, *, until_offset: Offset) -> TimedOffset | None:
    """None when the answer depends on where the log ends for the one who asks."""
    log = replica.log
    match timestamp:
        case -1:
            return None
        case -2 | -4:
            return _untimed(log.start_offset, log.epoch_at(log.start_offset))
        case -5 | -6:
            return _untimed(NO_OFFSET, None)
        case -3:
            found = log.offset_of_max_timestamp()
        case _:
            found = log.offset_at_time(timestamp)
    return None if found is None or found.offset >= until_offset else found


def _untimed(offset: Offset, leader_epoch: LeaderEpoch | None) -> TimedOffset:
    return TimedOffset(offset=offset, timestamp_ms=NO_TIMESTAMP, leader_epoch=leader_epoch)


def _refused(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)


API = Api(
    key=ApiKey.LIST_OFFSETS,
    versions=VersionRange(1, 11),
    request=ListOffsetsRequest,
    handle=handle,
    refuse=refuse,
)
