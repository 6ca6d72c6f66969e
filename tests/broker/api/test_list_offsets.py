"""ListOffsets: where to begin reading."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.broker.api import list_offsets
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from rig.data_requests import produce
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker


def ask(
    broker: Broker,
    timestamp: int,
    *,
    topic: str = "t",
    isolation: int = 0,
    version: int = 11,
    epoch: int = -1,
    replica_id: int = -1,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    response = broker.ask(list_offsets.API, request, ListOffsetsResponse, version=version)
    return response.topics[0].partitions[0]


def fill(broker: Broker) -> None:
    """Offsets 0, 1, 2 at times 0, 1, 2 and offsets 3, 4 at 10, 11 after NOW_MS."""
    broker.create_topic("t", leader_epoch=3)
    for data in (produced(3), produced(2, timestamp_ms=NOW_MS + 10)):
        broker.partition("t").append(data, all_acks=False, now_ms=NOW_MS)


def test_latest_and_earliest(broker: Broker) -> None:
    fill(broker)
    broker.partition("t").advance_start(Offset(1))
    latest, earliest = ask(broker, -1), ask(broker, -2)
    assert (latest.offset, latest.timestamp, latest.leader_epoch) == (5, -1, 3)
    assert (earliest.offset, earliest.timestamp, earliest.leader_epoch) == (1, -1, 3)
    assert ask(broker, -4).offset == 1


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (0, 0, NOW_MS),
        (NOW_MS + 2, 2, NOW_MS + 2),
        (NOW_MS + 3, 3, NOW_MS + 10),
        (NOW_MS + 11, 4, NOW_MS + 11),
        (NOW_MS + 12, -1, -1),
    ],
)
def test_the_first_record_at_or_after_a_time(
    broker: Broker, timestamp: int, offset: int, found: int
) -> None:
    fill(broker)
    answer = ask(broker, timestamp)
    assert (answer.offset, answer.timestamp) == (offset, found)
    assert answer.leader_epoch == (3 if offset >= 0 else -1)


def test_the_record_of_the_largest_time(broker: Broker) -> None:
    fill(broker)
    broker.partition("t").append(produced(), all_acks=False, now_ms=NOW_MS)
    answer = ask(broker, -3)
    assert (answer.offset, answer.timestamp) == (4, NOW_MS + 11)


def test_an_empty_log_has_no_time(broker: Broker) -> None:
    broker.create_topic("t")
    for timestamp in (-3, 0, NOW_MS):
        answer = ask(broker, timestamp)
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)
    assert ask(broker, -1).offset == 0
    assert ask(broker, -2).offset == 0


def test_nothing_is_tiered(broker: Broker) -> None:
    fill(broker)
    assert ask(broker, -5).offset == -1
    assert ask(broker, -6).offset == -1


@pytest.mark.parametrize(
    ("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-99, 11)]
)
def test_special_times_need_the_version_that_brought_them(
    broker: Broker, timestamp: int, version: int
) -> None:
    fill(broker)
    answer = ask(broker, timestamp, version=version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(1, 12))
def test_every_served_version_is_answered(broker: Broker, version: int) -> None:
    fill(broker)
    assert ask(broker, -1, version=version).offset == 5


def test_committed_readers_end_at_the_last_stable_offset(broker: Broker) -> None:
    fill(broker)
    broker.partition("t")._first_unstable_offset = Offset(3)
    assert ask(broker, -1, isolation=1).offset == 3
    assert ask(broker, -1).offset == 5
    assert ask(broker, NOW_MS + 10, isolation=1).offset == -1
    assert ask(broker, -1, isolation=1, replica_id=OTHER).offset == 5


def test_another_leader_epoch_is_refused(broker: Broker) -> None:
    fill(broker)
    assert ask(broker, -1, epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(broker, -1, epoch=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("isolation", [-1, 2, 9])
def test_strange_isolation_level_is_refused(broker: Broker, isolation: int) -> None:
    fill(broker)
    with pytest.raises(RequestError, match="INVALID_REQUEST"):
        ask(broker, -1, isolation=isolation)


def test_unknown_topics_are_told(broker: Broker) -> None:
    answer = ask(broker, -1, topic="nowhere")
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.offset == -1


def test_a_partition_named_twice_is_an_invalid_request(broker: Broker) -> None:
    broker.create_topic("t")
    twice = [ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=twice)])
    response = broker.ask(list_offsets.API, request, ListOffsetsResponse, version=5)
    codes = [answer.error_code for answer in response.topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


def test_a_damaged_batch_costs_its_partition_the_answer_and_no_more(broker: Broker) -> None:
    broker.create_topic("t", 2)
    for index in range(2):
        produce(broker, "t", produced(3), index=index)
    segment = broker.partition("t", 0).log.segments[-1].file
    segment.write_at(61, b"\xff" * 20)  # its records, behind the header
    asked = [ListOffsetsPartition(partition_index=index, timestamp=NOW_MS) for index in range(2)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)]
    )
    reply = broker.ask(list_offsets.API, request, ListOffsetsResponse, version=7)
    codes = [answer.error_code for answer in reply.topics[0].partitions]
    assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


def change_epoch(broker: Broker, *, leader: NodeId = NODE) -> None:
    """The next leader epoch."""
    topic = broker.services.image.topics_by_name["t"]
    [partition] = topic.partitions
    changed = replace(
        partition,
        leader=leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
    )
    broker.change_topic(replace(topic, partitions=(changed,)))


@pytest.mark.parametrize(
    ("version", "expected"),
    [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
@pytest.mark.parametrize("isolation", [0, 1])
def test_a_new_leader_does_not_tell_an_end_that_may_have_been_passed(
    broker: Broker, version: int, expected: ErrorCode, isolation: int
) -> None:
    broker.create_topic("t", replicas=(NODE, OTHER))
    partition = broker.partition("t")
    for offset in range(3):
        partition.append(produced(timestamp_ms=NOW_MS + offset), all_acks=False, now_ms=NOW_MS)
        if offset == 0:
            partition.follower_fetched(OTHER, offset=1, now_ms=0)
    change_epoch(broker)
    options: dict[str, Any] = {"isolation": isolation, "version": version, "epoch": -1}
    assert ask(broker, -1, **options).error_code == expected
    assert ask(broker, NOW_MS + 2, **options).error_code == expected
    assert ask(broker, NOW_MS + 9, **options).error_code == expected
    # What does not depend on the end is told, and other brokers see all of the log.
    assert ask(broker, -2, **options).offset == 0
    assert ask(broker, NOW_MS, **options).offset == 0
    assert ask(broker, -1, replica_id=OTHER, **options).offset == 3
    partition.follower_fetched(OTHER, offset=3, now_ms=0)
    assert ask(broker, -1, **options).offset == 3
    assert ask(broker, NOW_MS + 9, **options).offset == -1
    # Later the high watermark may be behind as it will.
    partition.append(produced(), all_acks=False, now_ms=NOW_MS)
    assert ask(broker, -1, **options).offset == 3


def test_the_log_of_a_follower_is_told_for_debugging_only(broker: Broker) -> None:
    broker.create_topic("t", replicas=(NODE, OTHER))
    broker.partition("t").append(produced(), all_acks=False, now_ms=NOW_MS)
    change_epoch(broker, leader=OTHER)
    assert ask(broker, -1, epoch=-1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = ask(broker, -1, epoch=-1, replica_id=-2)
    assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, 1, 1)
    stale = ask(broker, -1, epoch=0, replica_id=-2)
    assert stale.error_code == ErrorCode.FENCED_LEADER_EPOCH
