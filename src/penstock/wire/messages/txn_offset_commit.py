"""TxnOffsetCommit: offsets of a group that count once a transaction is committed.

From version 5 on it also adds the group to the transaction, as AddOffsetsToTxn does (KIP-890).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, int64, nullable, string


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = nullable(string())


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(
    Message, key=ApiKey.TXN_OFFSET_COMMIT, versions="0-5", flexible_from=3
):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = nullable(string("3+"), "3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(
    Message, key=ApiKey.TXN_OFFSET_COMMIT, versions="0-5", flexible_from=3
):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
