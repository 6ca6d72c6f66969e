"""AlterReplicaLogDirs: moves replicas of this broker to other log directories of it.

The reply says whether each move has begun; DescribeLogDirs shows how far it is.
"""

import asyncio

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.wire.api import ApiKey
from penstock.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def handle(
    services: Services, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    codes: dict[TopicPartition, ErrorCode] = {}
    for name, path in _wanted(request).items():
        codes[name] = services.directory_moves.move(name, path)
        await asyncio.sleep(0)  # a directory has been made, and synced
    return _reply(codes)


def refuse(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str | None
) -> AlterReplicaLogDirsResponse:
    return _reply(dict.fromkeys(_wanted(request), code))


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """The last one that the request names for a partition counts."""
    return {
        TopicPartition(topic.name, index): directory.path.rstrip("/") or "/"
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _reply(codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for name, code in codes.items():
        topic = topics.setdefault(name.topic, AlterReplicaLogDirTopicResult(topic_name=name.topic))
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=name.partition, error_code=code)
        )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


API = Api(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    versions=AlterReplicaLogDirsRequest.VERSIONS,
    request=AlterReplicaLogDirsRequest,
    handle=handle,
    refuse=refuse,
)
