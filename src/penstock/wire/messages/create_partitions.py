"""CreatePartitions: more partitions for topics that exist."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    nullable,
    prose,
    string,
)


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32())


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = nullable(
        array(CreatePartitionsAssignment)
    )


class CreatePartitionsRequest(
    Message, key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible_from=2
):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = prose()


class CreatePartitionsResponse(
    Message, key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible_from=2
):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
