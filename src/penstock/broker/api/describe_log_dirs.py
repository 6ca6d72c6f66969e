"""DescribeLogDirs: how large each partition is on disk, and how much room is left there.

Future logs, of replicas that are moved between directories, are listed where they are. Their lag is
what they have yet to copy; the lag of other logs is counted from the high watermark.
"""

from collections.abc import Iterable, Mapping

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.log.directory import LogDirectory
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.replication.replica import Replica
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.world.errors import DiskError


def handle(
    services: Services, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    directories = services.partitions.directories
    asked = {replica.name: replica for replica in _asked(services, request)}
    results = [_describe(services, directory, asked) for directory in directories.online.values()]
    return DescribeLogDirsResponse(results=results + [_failed(path) for path in directories.failed])


def refuse(
    request: DescribeLogDirsRequest, code: ErrorCode, message: str | None
) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code)


def _describe(
    services: Services, directory: LogDirectory, asked: Mapping[TopicPartition, Replica]
) -> DescribeLogDirsResult:
    path, disk = directory.path, services.world.disk
    try:
        total_bytes, usable_bytes = disk.total_bytes(path), disk.free_bytes(path)
    except DiskError:
        return _failed(path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=_by_topic(directory, asked),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _failed(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(log_dir=path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)


def _asked(services: Services, request: DescribeLogDirsRequest) -> Iterable[Replica]:
    """The replicas that were asked for and are here; all of them when none was named."""
    if request.topics is None:
        yield from services.partitions
        return
    asked = {(topic.topic, index): None for topic in request.topics for index in topic.partitions}
    for name, index in asked:
        found = services.partitions.replica(TopicPartition(name, index))
        if found is not None:
            yield found


def _by_topic(
    directory: LogDirectory, asked: Mapping[TopicPartition, Replica]
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for name, replica in asked.items():
        if name in directory.logs:
            log = replica.log
            lag = max(replica.high_watermark - log.end_offset, 0)  # 0, as in Apache Kafka
        elif name in directory.futures:
            log = directory.futures[name]
            lag = max(replica.log.end_offset - log.end_offset, 0)
        else:
            continue
        topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=name.partition,
                partition_size=log.size_bytes,
                offset_lag=lag,
                is_future_key=log is not replica.log,
            )
        )
    return list(topics.values())


API = Api(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    versions=VersionRange(1, 5),
    request=DescribeLogDirsRequest,
    handle=handle,
    refuse=refuse,
)
