"""OffsetForLeaderEpoch: where a leader epoch ended, so that a reader finds out what it lost."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns
from penstock.model.error import ErrorCode
from penstock.model.offset import NO_LEADER_EPOCH, LeaderEpoch
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    services: Services, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    return by_turns(_answer_all(services, request), services.long_answers)


def refuse(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, message: str | None
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=asked.partition, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer_all(
    services: Services, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answers)
        for asked in topic.partitions:
            answers.partitions.append(_answer(services, topic.topic, asked))
            yield
    return response


def _answer(services: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = services.partitions.find(topic, asked.partition)
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=partition)
    code = partition.check_leader_epoch(asked.current_leader_epoch)
    if code != ErrorCode.NONE:
        return EpochEndOffset(partition=asked.partition, error_code=code)
    end = None
    if asked.leader_epoch != NO_LEADER_EPOCH:
        end = partition.log.end_of_epoch(LeaderEpoch(asked.leader_epoch))
    if end is None:
        return EpochEndOffset(partition=asked.partition)
    return EpochEndOffset(
        partition=asked.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset
    )


API = Api(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=VersionRange(2, 4),
    request=OffsetForLeaderEpochRequest,
    handle=handle,
    refuse=refuse,
)
