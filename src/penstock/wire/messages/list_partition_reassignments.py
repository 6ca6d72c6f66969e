"""ListPartitionReassignments: which partitions are moving to other replicas (KIP-455)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, nullable, prose, string


class ListPartitionReassignmentsTopics(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class ListPartitionReassignmentsRequest(
    Message, key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible_from=0
):
    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = nullable(
        array(ListPartitionReassignmentsTopics),
        default=None,  # all topics
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32()
    replicas: list[int] = array(int32())
    adding_replicas: list[int] = array(int32())
    removing_replicas: list[int] = array(int32())


class OngoingTopicReassignment(Struct):
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(
    Message, key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
