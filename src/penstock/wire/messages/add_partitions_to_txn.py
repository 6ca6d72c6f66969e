"""AddPartitionsToTxn: partitions that a transaction is about to write to.

Up to version 3 a producer sends it, for its own transaction. From version 4 on brokers do, for the
transactions of many producers at once, and may only ask whether partitions are in them (KIP-890).

Tags from 10,000 on are Penstock's own; Apache Kafka skips them, and does not send them:

    leader_epochs      beside partitions: the epoch in which the broker that asks leads each of them
    coordinator_epoch  of the coordinator that answers, as in the markers that it sends
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    OWN_TAGS_FROM,
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    tagged,
)

LEADER_EPOCHS_TAG = OWN_TAGS_FROM
COORDINATOR_EPOCH_TAG = OWN_TAGS_FROM
NO_COORDINATOR_EPOCH = -1


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32())
    leader_epochs: list[int] = tagged(LEADER_EPOCHS_TAG, array(int32(), "4+"))


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


class AddPartitionsToTxnRequest(
    Message, key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible_from=3
):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)
    coordinator_epoch: int = tagged(
        COORDINATOR_EPOCH_TAG, int32("4+", default=NO_COORDINATOR_EPOCH)
    )


class AddPartitionsToTxnResponse(
    Message, key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible_from=3
):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )
