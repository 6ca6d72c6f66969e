"""Fetch: record batches out of partitions, in full or as the change to a fetch session (KIP-227).

Versions from 13 name topics by their ids. Versions before 4 carry message formats that are no
longer served.
"""

from penstock.wire.api import ApiKey
from penstock.wire.codec import Records
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nullable,
    records,
    string,
    tagged,
    tagged_struct,
    uuid,
)


class ReplicaState(Struct):
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = tagged(0, uuid("17+"))
    high_watermark: int = tagged(1, int64("18+", default=2**63 - 1))


class FetchTopic(Struct):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array(int32())


class FetchRequest(Message, key=ApiKey.FETCH, versions="4-18", flexible_from=12):
    cluster_id: str | None = tagged(0, nullable(string("12+"), default=None))
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = tagged_struct(1, ReplicaState, "15+")
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    isolation_level: int = int8()
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


class EpochEndOffset(Struct):
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = tagged_struct(0, EpochEndOffset, "12+")
    current_leader: LeaderIdAndEpoch | None = tagged_struct(1, LeaderIdAndEpoch, "12+")
    snapshot_id: SnapshotId | None = tagged_struct(2, SnapshotId, "12+")
    aborted_transactions: list[AbortedTransaction] | None = nullable(array(AbortedTransaction))
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = records()


class FetchableTopicResponse(Struct):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = nullable(string(), default=None)


class FetchResponse(Message, key=ApiKey.FETCH, versions="4-18", flexible_from=12):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = tagged(0, array(NodeEndpoint, "16+"))
