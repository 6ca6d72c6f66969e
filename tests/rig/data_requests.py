"""Short ways to write the requests of the data plane."""

from penstock.broker.api import fetch as fetch_api
from penstock.broker.api import produce as produce_api
from penstock.model.identity import NO_TOPIC_ID
from penstock.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.world.ports import FileRange
from rig.services import Broker


def produce_request(
    topic: str,
    data: memoryview | None,
    *,
    index: int = 0,
    acks: int = -1,
    topic_id: bytes = NO_TOPIC_ID,
    timeout_ms: int = 1000,
) -> ProduceRequest:
    partition = PartitionProduceData(index=index, records=data)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[partition])],
    )


def produce(
    broker: Broker, topic: str, data: memoryview | None, *, version: int = 9, index: int = 0
) -> PartitionProduceResponse:
    request = produce_request(topic, data, index=index)
    response = broker.ask(produce_api.API, request, ProduceResponse, version=version)
    return response.responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    *partitions: FetchPartition,
    topic_id: bytes = NO_TOPIC_ID,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    isolation: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    named = FetchTopic(topic=topic, topic_id=topic_id, partitions=list(partitions))
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[named] if partitions else [],
    )


def at(offset: int, *, index: int = 0, max_bytes: int = 2**20, epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
    )


def fetch(broker: Broker, request: FetchRequest, *, version: int = 12) -> FetchResponse:
    return broker.ask(fetch_api.API, request, FetchResponse, version=version)


def only(response: FetchResponse) -> PartitionData:
    (topic,) = response.responses
    assert isinstance(topic, FetchableTopicResponse)
    (partition,) = topic.partitions
    return partition


def bytes_of(answer: PartitionData) -> bytes:
    """What the client would receive."""
    records = answer.records
    if isinstance(records, FileRange):
        return records.file.read_at(records.position, records.byte_count)
    assert isinstance(records, bytes | memoryview)
    return bytes(records)
