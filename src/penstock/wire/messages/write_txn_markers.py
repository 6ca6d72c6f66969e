"""WriteTxnMarkers: a transaction coordinator tells the leaders of partitions how it ended.

Version 2 also tells the transaction version, 2 where epochs grow with every transaction (KIP-1228).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
)


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()  # whether it was committed
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


class WriteTxnMarkersRequest(
    Message, key=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible_from=1
):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(
    Message, key=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible_from=1
):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
