"""DeleteRecords: a partition begins later than it did."""

import pytest

from penstock.broker.api import delete_records
from penstock.model.error import ErrorCode
from penstock.records.batch import batches
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from rig.data_requests import at, bytes_of, fetch, fetch_request, only
from rig.produced import NOW_MS, produced
from rig.services import Broker


def delete(
    broker: Broker, offset: int, *, topic: str = "t", version: int = 2
) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])])
    response = broker.ask(delete_records.API, request, DeleteRecordsResponse, version=version)
    return response.topics[0].partitions[0]


def fill(broker: Broker, topic: str = "t", **config: str) -> None:
    named = {name.replace("_", "."): value for name, value in config.items()}
    broker.create_topic(topic, config=named)
    for _ in range(2):
        broker.partition(topic).append(produced(3), all_acks=False, now_ms=NOW_MS)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_below_the_offset_are_gone(broker: Broker, version: int) -> None:
    fill(broker)
    answer = delete(broker, 4, version=version)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 4)
    gone = only(fetch(broker, fetch_request("t", at(3))))
    assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    left = bytes_of(only(fetch(broker, fetch_request("t", at(4)))))
    assert [batch.base_offset for batch in batches(memoryview(left))] == [3]


def test_minus_one_deletes_up_to_the_high_watermark(broker: Broker) -> None:
    fill(broker)
    assert delete(broker, -1).low_watermark == 6
    assert broker.partition("t").log.start_offset == 6


def test_a_lower_offset_than_the_start_changes_nothing(broker: Broker) -> None:
    fill(broker)
    delete(broker, 4)
    assert delete(broker, 2).low_watermark == 4


@pytest.mark.parametrize("offset", [7, -2])
def test_offsets_that_are_not_there_are_out_of_range(broker: Broker, offset: int) -> None:
    fill(broker)
    answer = delete(broker, offset)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_compacted_topics_refuse(broker: Broker) -> None:
    fill(broker, cleanup_policy="compact")
    assert delete(broker, 1).error_code == ErrorCode.POLICY_VIOLATION
    broker.configure("t", {"cleanup.policy": "compact,delete"})
    assert delete(broker, 1).error_code == ErrorCode.NONE


def test_internal_and_unknown_topics_refuse(broker: Broker) -> None:
    fill(broker, "__consumer_offsets")
    internal = delete(broker, 1, topic="__consumer_offsets")
    assert internal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    unknown = delete(broker, 1, topic="nowhere")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
