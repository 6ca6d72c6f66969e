"""Topics for stories, their events in them, and what came out."""

import time
from collections.abc import Iterable, Iterator

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.spark.pipelines.generated import Event
from rig.clients.confluent import QUIET
from rig.numbered_rows import make_topics
from rig.stateful.story import Story
from rig.stateful.truth import Record

OUTPUT_PARTITIONS = 2
PATIENCE_SECONDS = 120.0
POLLED_AT_ONCE = 10_000


def prepare(bootstrap: str, story: Story, *outputs: str) -> None:
    for topic, partitions in story.topics.items():
        make_topics(bootstrap, topic, partitions=partitions)
    make_topics(bootstrap, *outputs, partitions=OUTPUT_PARTITIONS)


def feed(bootstrap: str, events: Iterable[Event]) -> int:
    """How many bytes of keys and values were written."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "enable.idempotence": True,
            "queue.buffering.max.kbytes": 65_536,
            "sticky.partitioning.linger.ms": 0,  # events without keys go to all partitions alike
        }
    )
    size_bytes = 0
    for event in events:
        size_bytes += len(event.key or b"") + len(event.value or b"")
        while True:
            try:
                producer.produce(event.topic, event.value, event.key, timestamp=event.timestamp_ms)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return size_bytes


def states(bootstrap: str, topic: str, story: Story) -> Iterator[Record]:
    """What the records of an output say."""
    for key, value in committed(bootstrap, topic):
        assert key is not None and value is not None
        yield Record(key, story.state_of(value))


def committed(bootstrap: str, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values of an output, those of each partition in their order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    ended: set[int | None] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, f"{topic} was read and came to no end"
        for message in consumer.consume(POLLED_AT_ONCE, 1):
            deadline = time.monotonic() + PATIENCE_SECONDS
            error, key, value = message.error(), message.key(), message.value()
            if error is None:
                assert not isinstance(key, str) and not isinstance(value, str)
                yield key, value
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
