"""DescribeLogDirs, DescribeProducers and OffsetForLeaderEpoch: what a log can tell of itself."""

import pytest

from penstock.broker.api import describe_log_dirs, describe_producers, offset_for_leader_epoch
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch
from penstock.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from rig.produced import NOW_MS, produced
from rig.services import NODE, Broker


def append(broker: Broker, data: memoryview, *, topic: str = "t", index: int = 0) -> None:
    broker.partition(topic, index).append(data, all_acks=False, now_ms=NOW_MS)


def log_dirs(broker: Broker, request: DescribeLogDirsRequest, version: int = 4):  # type: ignore[no-untyped-def]
    response = broker.ask(describe_log_dirs.API, request, DescribeLogDirsResponse, version=version)
    (result,) = response.results
    return result


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_of_all_partitions_and_room_on_disk(broker: Broker, version: int) -> None:
    broker.create_topic("t", 2)
    broker.create_topic("u")
    data = produced()
    append(broker, data, index=1)
    result = log_dirs(broker, DescribeLogDirsRequest(topics=None), version)
    assert result.log_dir == broker.directory.path
    assert result.total_bytes >= result.usable_bytes > 0
    sizes = {
        (topic.name, found.partition_index): found.partition_size
        for topic in result.topics
        for found in topic.partitions
    }
    assert sizes == {("t", 0): 0, ("t", 1): len(data), ("u", 0): 0}


def test_only_the_partitions_asked_for_that_are_here(broker: Broker) -> None:
    broker.create_topic("t", 2)
    broker.create_topic("u")
    wanted = [
        DescribableLogDirTopic(topic="t", partitions=[1, 7]),
        DescribableLogDirTopic(topic="nowhere", partitions=[0]),
    ]
    result = log_dirs(broker, DescribeLogDirsRequest(topics=wanted))
    assert [(topic.name, len(topic.partitions)) for topic in result.topics] == [("t", 1)]


def producers(broker: Broker, topic: str):  # type: ignore[no-untyped-def]
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    response = broker.ask(describe_producers.API, request, DescribeProducersResponse, version=0)
    return response.topics[0].partitions[0]


def test_remembered_producers_are_described(broker: Broker) -> None:
    broker.create_topic("t")
    append(broker, produced(2, producer_id=4, epoch=1, sequence=0))
    append(broker, produced(3, producer_id=4, epoch=1, sequence=2))
    append(broker, produced())
    (found,) = producers(broker, "t").active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (4, 1, 4)
    assert (found.last_timestamp, found.current_txn_start_offset) == (NOW_MS + 2, -1)


def test_producers_of_unknown_and_impossible_topics(broker: Broker) -> None:
    unknown = producers(broker, "nowhere")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    impossible = producers(broker, "../t")
    assert impossible.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert impossible.error_message


def end_of(broker: Broker, epoch: int, *, current: int = -1, version: int = 4) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    response = broker.ask(
        offset_for_leader_epoch.API, request, OffsetForLeaderEpochResponse, version=version
    )
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_each_leader_epoch_ended(broker: Broker, version: int) -> None:
    broker.create_topic("t", leader_epoch=1)
    append(broker, produced(3))
    broker.partition("t").change_replicas(
        leader_epoch=LeaderEpoch(4), partition_epoch=9, replicas=(NODE,), in_sync=(NODE,)
    )
    append(broker, produced(2))
    for epoch, expected in ((1, (1, 3)), (2, (1, 3)), (4, (4, 5)), (5, (-1, -1)), (-1, (-1, -1))):
        found = end_of(broker, epoch, version=version)
        assert (found.leader_epoch, found.end_offset) == expected, epoch


def test_epochs_of_others_are_checked_and_unknown_partitions_told(broker: Broker) -> None:
    assert end_of(broker, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("t", leader_epoch=3)
    assert end_of(broker, 3, current=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert end_of(broker, 3, current=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
