"""Produce: record batches into partitions.

Versions 0 to 2 carry message formats that are no longer written. They are declared so that such a
request can be read and refused; version 13 names topics by their ids.
"""

from penstock.wire.api import ApiKey
from penstock.wire.codec import Buffer
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    nullable,
    prose,
    records,
    string,
    tagged,
    tagged_struct,
    uuid,
)


class PartitionProduceData(Struct):
    index: int = int32()
    records: Buffer | None = records()


class TopicProduceData(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, key=ApiKey.PRODUCE, versions="0-13", flexible_from=9):
    transactional_id: str | None = nullable(string("3+"), default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = prose()


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = prose("8+")
    current_leader: LeaderIdAndEpoch | None = tagged_struct(0, LeaderIdAndEpoch, "10+")


class TopicProduceResponse(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = nullable(string(), default=None)


class ProduceResponse(Message, key=ApiKey.PRODUCE, versions="0-13", flexible_from=9):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = tagged(0, array(NodeEndpoint, "10+"))
