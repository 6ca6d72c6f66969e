"""ListOffsets, OffsetsForLeaderEpoch and DeleteRecords of a partition that is led, followed, and
led again: a follower refuses them, and a new leader answers from the whole log.
"""

from dataclasses import replace

from penstock.broker.api import delete_records, list_offsets, offset_for_leader_epoch
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView
from penstock.replication.follower import Follower, Taken
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.wire.messages.fetch import PartitionData
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker

LATEST, EARLIEST = -1, -2
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def offset_of(broker: Broker, timestamp: int) -> tuple[int, int]:
    """Offset and leader epoch, or an error code and -1."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    response = broker.ask(list_offsets.API, request, ListOffsetsResponse, version=7)
    [answer] = response.topics[0].partitions
    if answer.error_code:
        return answer.error_code, -1
    return answer.offset, answer.leader_epoch


def end_of(broker: Broker, epoch: int) -> tuple[int, int]:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    response = broker.ask(
        offset_for_leader_epoch.API, request, OffsetForLeaderEpochResponse, version=4
    )
    [answer] = response.topics[0].partitions
    if answer.error_code:
        return answer.error_code, -1
    return answer.end_offset, answer.leader_epoch


def delete(broker: Broker, offset: int) -> tuple[ErrorCode, int]:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[asked])])
    response = broker.ask(delete_records.API, request, DeleteRecordsResponse, version=2)
    [answer] = response.topics[0].partitions
    return ErrorCode(answer.error_code), answer.low_watermark


def change_leader(broker: Broker, leader: NodeId) -> None:
    topic = broker.services.image.topics_by_name["t"]
    [partition] = topic.partitions
    changed = replace(
        partition,
        leader=leader,
        isr=(leader,),
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
    )
    broker.change_topic(replace(topic, partitions=(changed,)))


def append(broker: Broker, count: int) -> None:
    broker.partition("t").append(produced(count), all_acks=False, now_ms=NOW_MS)


def replicate(broker: Broker, count: int, *, epoch: int, start: int = 0) -> None:
    """Records from the leader, all of which are committed there."""
    follower = broker.partitions.replica(TopicPartition("t", 0))
    assert isinstance(follower, Follower)
    asked = follower.position()
    assert asked is not None
    batch = BatchView(produced(count))
    batch.assign(base_offset=asked.fetch_offset, leader_epoch=LeaderEpoch(epoch))
    data = PartitionData(
        high_watermark=asked.fetch_offset + count, log_start_offset=start, records=batch.view
    )
    assert follower.take(asked, data, now_ms=NOW_MS) is Taken.APPENDED


def test_each_answer_is_right_when_led_followed_and_led_again(broker: Broker) -> None:
    broker.fence(OTHER)  # DeleteRecords does not wait for it
    broker.create_topic("t", replicas=(NODE, OTHER))
    change_leader(broker, NODE)
    append(broker, 3)
    assert offset_of(broker, LATEST) == (3, 1)
    assert delete(broker, 1) == (ErrorCode.NONE, 1)

    change_leader(broker, OTHER)
    replicate(broker, 2, epoch=2, start=2)
    assert offset_of(broker, LATEST) == offset_of(broker, EARLIEST) == (REFUSED, -1)
    assert end_of(broker, 1) == (REFUSED, -1)
    assert delete(broker, 4) == (REFUSED, -1)

    change_leader(broker, NODE)
    append(broker, 1)
    # The start is the one that the leader in between had told.
    assert (offset_of(broker, EARLIEST), offset_of(broker, LATEST)) == ((2, 1), (6, 3))
    assert [end_of(broker, epoch) for epoch in (1, 2, 3, 4)] == [(3, 1), (5, 2), (6, 3), (-1, -1)]
    assert delete(broker, 4) == (ErrorCode.NONE, 4)
    assert (offset_of(broker, EARLIEST), end_of(broker, 1)) == ((4, 2), (4, 1))
    assert broker.partition("t").log.start_offset == Offset(4)
