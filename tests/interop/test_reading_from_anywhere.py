"""Assignment, seek, the bounds of a partition, and offsets by time."""

from collections.abc import Callable

from rig.clients.interface import KafkaClient, Message

TopicMaker = Callable[..., str]
NOON_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def readings(count: int) -> list[Message]:
    """One message a minute from noon on."""
    return [
        Message(value=b"%d" % minute, partition=0, timestamp_ms=NOON_MS + minute * MINUTE_MS)
        for minute in range(count)
    ]


def test_a_seek_lands_on_the_very_record_even_within_a_batch(
    client: KafkaClient, topic: TopicMaker
) -> None:
    name = topic()
    client.produce(name, readings(50))
    for start in (0, 17, 49):
        found = client.read(name, 0, from_offset=start, count=50 - start)
        assert [record.offset for record in found] == list(range(start, 50))


def test_the_bounds_of_a_partition_are_known(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic(partitions=2)
    client.produce(name, readings(7))
    assert client.offset_bounds(name, 0) == (0, 7)
    assert client.offset_bounds(name, 1) == (0, 0)


def test_a_time_leads_to_the_first_record_not_before_it(
    client: KafkaClient, topic: TopicMaker
) -> None:
    name = topic()
    client.produce(name, readings(20))
    assert client.offset_at_time(name, 0, NOON_MS - 1) == 0
    assert client.offset_at_time(name, 0, NOON_MS + 5 * MINUTE_MS) == 5
    assert client.offset_at_time(name, 0, NOON_MS + 5 * MINUTE_MS + 1) == 6
    assert client.offset_at_time(name, 0, NOON_MS + 20 * MINUTE_MS) is None


def test_a_time_leads_to_the_right_record_across_batches_and_segments(
    client: KafkaClient, topic: TopicMaker
) -> None:
    name = topic(**{"segment.bytes": str(1024 * 1024), "index.interval.bytes": "4096"})
    padded = [
        Message(value=bytes(40_000), partition=0, timestamp_ms=NOON_MS + minute * MINUTE_MS)
        for minute in range(60)
    ]
    client.produce(name, padded, alone=True)
    for minute in (0, 1, 29, 30, 59):
        assert client.offset_at_time(name, 0, NOON_MS + minute * MINUTE_MS) == minute
    found = client.read(name, 0, from_offset=0, count=60)
    assert [record.offset for record in found] == list(range(60))


def test_an_append_time_topic_stamps_records_itself(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic(**{"message.timestamp.type": "LogAppendTime"})
    client.produce(name, readings(3))
    found = client.read(name, 0, from_offset=0, count=3)
    assert all(record.timestamp_ms > NOON_MS + 3 * MINUTE_MS for record in found)
    assert client.offset_at_time(name, 0, found[0].timestamp_ms) == 0
