"""WriteTxnMarkers: a transaction coordinator tells the leaders of partitions how it ended.

Version 2 also tells the transaction version, 2 where epochs grow with every transaction (KIP-1228).

Tags from 10,000 on are Penstock's own; Apache Kafka skips them, and does not send them:

    leader_epochs    beside partition_indexes: the leader that each marker is meant for
    sender           whose request it is, and its number: a later one of the same sender replaces it
    stopped_writers  without markers: producers whose transactions others took over (KIP-939); the
                     partitions take no more of their batches, and the reply acknowledges that
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    OWN_TAGS_FROM,
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    tagged,
    tagged_struct,
)

LEADER_EPOCHS_TAG = OWN_TAGS_FROM
SENDER_TAG = OWN_TAGS_FROM
STOPPED_WRITERS_TAG = OWN_TAGS_FROM + 1
ACKNOWLEDGED_TAG = OWN_TAGS_FROM


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())
    leader_epochs: list[int] = tagged(LEADER_EPOCHS_TAG, array(int32()))


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()  # whether it was committed
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


class MarkerSender(Struct):
    node_id: int = int32()
    broker_epoch: int = int64()
    request_number: int = int64()  # grows with each request of one broker epoch


class StoppedWriter(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)


class WriteTxnMarkersRequest(
    Message, key=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible_from=1
):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)
    sender: MarkerSender | None = tagged_struct(SENDER_TAG, MarkerSender, "1+")
    stopped_writers: list[StoppedWriter] = tagged(STOPPED_WRITERS_TAG, array(StoppedWriter))


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
    stopped_writers: list[WritableTxnMarkerResult] = tagged(
        ACKNOWLEDGED_TAG, array(WritableTxnMarkerResult)
    )
