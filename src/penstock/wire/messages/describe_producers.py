"""DescribeProducers: the producers a partition remembers (KIP-664)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    prose,
    string,
)


class TopicRequest(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class DescribeProducersRequest(
    Message, key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible_from=0
):
    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(
    Message, key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
