"""What is asked of logs now and then is answered as by Apache Kafka, odd questions included."""

from collections.abc import Callable

import pytest

from penstock.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.delete_topics import DeleteTopicsRequest
from penstock.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from penstock.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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
from rig.produced import NOW_MS, produced


def fill(dialogue: Dialogue, *data: memoryview, partition: int = 0) -> None:
    for batch in data or (produced(3), produced(3, timestamp_ms=NOW_MS + 10)):
        part = PartitionProduceData(index=partition, records=batch)
        topic = TopicProduceData(name=dialogue.topic, partition_data=[part])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        dialogue.exchange(request, version=9)


def list_offsets(dialogue: Dialogue, *stamps: int, version: int, isolation: int = 0) -> None:
    parts = [ListOffsetsPartition(partition_index=0, timestamp=stamp) for stamp in stamps]
    asked = ListOffsetsTopic(name=dialogue.topic, partitions=parts)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[asked])
    dialogue.ask(request, version=version)


def special_times(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    for version in (1, 6, 7, 8, 9, 10, 11):
        for stamp in (-3, -4, -5, -6, -7):
            list_offsets(dialogue, stamp, version=version)
    list_offsets(dialogue, -1, version=11, isolation=1)


def a_partition_twice(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(dialogue)
    parts = [
        FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000)
        for offset in (3, 0)
    ]
    asked = FetchTopic(topic=dialogue.topic, partitions=parts)
    dialogue.ask(FetchRequest(max_wait_ms=1, topics=[asked]), version=12)


def deletions(dialogue: Dialogue) -> None:
    fill(dialogue)
    for offset in (2, -1):
        part = DeleteRecordsPartition(partition_index=0, offset=offset)
        asked = DeleteRecordsTopic(name=dialogue.topic, partitions=[part])
        dialogue.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=5_000), version=2)
    list_offsets(dialogue, -2, version=7)


def deletions_from_a_plain_topic(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    deletions(dialogue)


def deletions_from_a_compacted_topic(dialogue: Dialogue) -> None:
    dialogue.create_topic(cleanup_policy="compact")
    deletions(dialogue)


def deletions_from_a_topic_that_does_both(dialogue: Dialogue) -> None:
    dialogue.create_topic(cleanup_policy="compact,delete")
    deletions(dialogue)


def deletions_from_a_topic_that_keeps_all(dialogue: Dialogue) -> None:
    dialogue.create_topic(cleanup_policy="")
    deletions(dialogue)


def producers(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fill(
        dialogue,
        produced(),
        produced(2, producer_id=800, epoch=1, sequence=0),
        produced(3, producer_id=800, epoch=1, sequence=2),
    )
    for topic, partition in ((dialogue.topic, 0), (dialogue.topic, 9), ("nowhere", 0), ("..", 0)):
        asked = TopicRequest(name=topic, partition_indexes=[partition])
        dialogue.ask(DescribeProducersRequest(topics=[asked]), version=0)


def epochs_below_zero(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    for epoch in (-1, -2, 0, 1):
        part = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        asked = OffsetForLeaderTopic(topic=dialogue.topic, partitions=[part])
        dialogue.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked]), version=4)


def sizes_on_disk(dialogue: Dialogue) -> None:
    dialogue.create_topic(partitions=2)
    fill(dialogue, partition=1)
    wanted = DescribableLogDirTopic(topic=dialogue.topic, partitions=[1, 7])
    answer = dialogue.exchange(DescribeLogDirsRequest(topics=[wanted]), version=4)
    found = [
        (topic.name, part.partition_index, part.partition_size, part.offset_lag, part.is_future_key)
        for result in answer.results
        for topic in result.topics
        for part in topic.partitions
    ]
    dialogue.answers.append((answer.error_code, found))


def moves_that_cannot_be(dialogue: Dialogue) -> None:
    """To a directory that is not there; of partitions that are not; and to where it is."""
    dialogue.create_topic()
    described = dialogue.exchange(DescribeLogDirsRequest(topics=None), version=4)
    here = described.results[0].log_dir
    for version in (1, 2):
        for path, topic, partition in (
            ("/nowhere", dialogue.topic, 0),
            ("", dialogue.topic, 0),
            (here, dialogue.topic, 0),
            (here, dialogue.topic, 7),
            (here, dialogue.topic, -1),
            (here, "nowhere", 0),
            (here, "n" * 249, 0),
            ("/nowhere", "n" * 249, 0),
        ):
            wanted = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
            directory = AlterReplicaLogDir(path=path, topics=[wanted])
            dialogue.ask(AlterReplicaLogDirsRequest(dirs=[directory]), version=version)


def a_session_whose_topic_is_made_anew(dialogue: Dialogue) -> None:
    topic_id = dialogue.create_topic()
    fill(dialogue)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
    asked = FetchTopic(topic_id=topic_id, partitions=[part])
    opened = dialogue.ask(FetchRequest(session_epoch=0, topics=[asked]), version=13)
    dialogue.exchange(
        DeleteTopicsRequest(topic_names=[dialogue.topic], timeout_ms=10_000), version=5
    )
    dialogue.settle()
    dialogue.ask(FetchRequest(session_id=opened.session_id, session_epoch=1), version=13)
    dialogue.create_topic()
    dialogue.ask(FetchRequest(session_id=opened.session_id, session_epoch=2), version=13)
    dialogue.ask(FetchRequest(session_id=opened.session_id, session_epoch=3), version=12)
    dialogue.ask(FetchRequest(session_epoch=-1, topics=[asked]), version=13)


@pytest.mark.parametrize(
    "talk",
    [
        special_times,
        a_partition_twice,
        deletions_from_a_plain_topic,
        deletions_from_a_compacted_topic,
        deletions_from_a_topic_that_does_both,
        deletions_from_a_topic_that_keeps_all,
        producers,
        epochs_below_zero,
        sizes_on_disk,
        moves_that_cannot_be,
        a_session_whose_topic_is_made_anew,
    ],
    ids=lambda talk: talk.__name__,
)
def test_a_log_is_described_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)
