"""What a reader is told, of records, offsets, sessions and epochs, is what Apache Kafka tells."""

from collections.abc import Callable

import pytest

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.dialogue import Dialogue

NOON_MS = 1_700_000_000_000


def fill(dialogue: Dialogue, *, batches: int = 3, partition: int = 0) -> None:
    """Batches of two records, one second apart."""
    for number in range(batches):
        stamps = [NOON_MS + (2 * number + place) * 1_000 for place in range(2)]
        data = build_batch([Record(key=b"k", value=b"v", timestamp_ms=ms) for ms in stamps])
        part = PartitionProduceData(index=partition, records=data)
        topic = TopicProduceData(name=dialogue.topic, partition_data=[part])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        dialogue.exchange(request, version=9)


def fetch(
    dialogue: Dialogue,
    offset: int = 0,
    *,
    version: int = 12,
    partition: int = 0,
    partition_bytes: int = 1_000_000,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    topic: str | None = None,
    topic_id: bytes = bytes(16),
    session: tuple[int, int] = (0, -1),
    isolation: int = 0,
) -> int:
    part = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_bytes,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    asked = FetchTopic(topic=topic or dialogue.topic, topic_id=topic_id, partitions=[part])
    request = FetchRequest(
        max_wait_ms=1,
        min_bytes=1,
        topics=[asked],
        session_id=session[0],
        session_epoch=session[1],
        isolation_level=isolation,
    )
    return int(dialogue.ask(request, version=version).session_id)


def every_version(dialogue: Dialogue) -> None:
    topic_id = dialogue.create_topic()
    fill(dialogue)
    for version in range(4, 13):
        fetch(dialogue, version=version)
    for version in range(13, 19):
        fetch(dialogue, version=version, topic_id=topic_id)


def within_and_around_batches(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    for offset in (-1, 0, 1, 2, 5, 6, 7):
        fetch(dialogue, offset)
        fetch(dialogue, offset, isolation=1)


def less_than_one_batch(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    fetch(dialogue, partition_bytes=1)
    fetch(dialogue, partition_bytes=0)


def places_that_are_not_there(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fetch(dialogue, topic="no-such-topic")
    fetch(dialogue, partition=9)
    fetch(dialogue, version=13, topic_id=bytes(range(16)))


def epochs_of_others(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    fetch(dialogue, leader_epoch=0)
    fetch(dialogue, leader_epoch=5)
    fetch(dialogue, last_fetched_epoch=0)
    fetch(dialogue, 9, last_fetched_epoch=0)


def a_session(dialogue: Dialogue) -> None:
    """Opened, continued by what changed, continued out of turn, closed, and asked for after."""
    dialogue.create_topic(partitions=2)
    fill(dialogue)
    number = fetch(dialogue, session=(0, 0))
    assert number != 0

    def go_on(epoch: int, *, session: int = number, forget: bool = False) -> None:
        forgotten = [ForgottenTopic(topic=dialogue.topic, partitions=[0])] if forget else []
        request = FetchRequest(
            max_wait_ms=1,
            min_bytes=1,
            session_id=session,
            session_epoch=epoch,
            forgotten_topics_data=forgotten,
        )
        dialogue.ask(request, version=12)

    go_on(1)
    fetch(dialogue, 6, session=(number, 2))
    go_on(3)
    go_on(9)
    go_on(4, forget=True)
    go_on(5)
    go_on(1, session=123_456)
    go_on(-1)
    go_on(6)


def offsets_by_time(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    times = [-2, -1, NOON_MS - 1, NOON_MS, NOON_MS + 2_500, NOON_MS + 5_000, NOON_MS + 6_000]
    for version in range(1, 12):
        for stamp in times if version < 7 else [*times, -3]:
            list_offsets(dialogue, stamp, version=version)


def offsets_of_nothing(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    for stamp in (-3, -2, -1, NOON_MS):
        list_offsets(dialogue, stamp, version=7)
    list_offsets(dialogue, -1, version=7, topic="no-such-topic")
    list_offsets(dialogue, -1, version=7, partition=9)
    list_offsets(dialogue, -1, version=7, leader_epoch=9)


def list_offsets(
    dialogue: Dialogue,
    stamp: int,
    *,
    version: int,
    topic: str | None = None,
    partition: int = 0,
    leader_epoch: int = -1,
) -> None:
    part = ListOffsetsPartition(
        partition_index=partition, timestamp=stamp, current_leader_epoch=leader_epoch
    )
    asked = ListOffsetsTopic(name=topic or dialogue.topic, partitions=[part])
    request = ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=1_000)
    dialogue.ask(request, version=version)


def deletions(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    for topic, partition, offset in [
        (dialogue.topic, 0, 3),
        (dialogue.topic, 0, 1),
        (dialogue.topic, 0, 7),
        (dialogue.topic, 0, -2),
        (dialogue.topic, 9, 0),
        ("no-such-topic", 0, 0),
    ]:
        part = DeleteRecordsPartition(partition_index=partition, offset=offset)
        asked = DeleteRecordsTopic(name=topic, partitions=[part])
        dialogue.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=5_000), version=2)
    for offset in (0, 2, 3, 4):
        fetch(dialogue, offset)
    list_offsets(dialogue, -2, version=7)
    list_offsets(dialogue, NOON_MS, version=7)


def ends_of_epochs(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    for version in range(2, 5):
        for topic, current, epoch in [
            (dialogue.topic, -1, 0),
            (dialogue.topic, 0, 0),
            (dialogue.topic, 5, 0),
            (dialogue.topic, -1, 7),
            ("no-such-topic", -1, 0),
        ]:
            part = OffsetForLeaderPartition(
                partition=0, current_leader_epoch=current, leader_epoch=epoch
            )
            asked = OffsetForLeaderTopic(topic=topic, partitions=[part])
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked])
            dialogue.ask(request, version=version)


@pytest.mark.parametrize(
    "talk",
    [
        every_version,
        within_and_around_batches,
        less_than_one_batch,
        places_that_are_not_there,
        epochs_of_others,
        a_session,
        offsets_by_time,
        offsets_of_nothing,
        deletions,
        ends_of_epochs,
    ],
    ids=lambda talk: talk.__name__,
)
def test_a_reader_is_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)
