"""AlterPartitionReassignments: partitions move to other replicas, or stop moving (KIP-455).

Version 1 can forbid that the number of replicas changes (KIP-860).
"""

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


class ReassignablePartition(Struct):
    partition_index: int = int32()
    replicas: list[int] | None = nullable(array(int32()), default=None)  # None: stop moving


class ReassignableTopic(Struct):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(
    Message, key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible_from=0
):
    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()


class ReassignableTopicResponse(Struct):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(
    Message, key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible_from=0
):
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16()
    error_message: str | None = prose()
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
