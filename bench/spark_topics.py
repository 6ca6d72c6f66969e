"""Topics that are read and written while Spark is measured, by a client that is not ours."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_SECONDS = 60
VALUES = 63  # different ones
QUIET = {"log_level": 4}  # warnings; a client says at level 6 that it is closed


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, num_partitions=partitions)])[topic].result(WAIT_SECONDS)


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.delete_topics([topic])[topic].result(WAIT_SECONDS)


def fill(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    value_bytes: int,
    records: int,
    compression: str = "none",
    headers: list[tuple[str, bytes]] | None = None,
) -> None:
    """A new topic with so many records, spread evenly."""
    create(bootstrap, topic, partitions)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 65536,
            "compression.type": compression,
            "queue.buffering.max.messages": 200_000,
            **QUIET,
        }
    )
    values = [
        bytes((at * step) % 256 for at in range(value_bytes)) for step in range(1, VALUES + 1)
    ]
    for number in range(records):
        while True:
            try:
                producer.produce(
                    topic, values[number % VALUES], partition=number % partitions, headers=headers
                )
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(WAIT_SECONDS) == 0


def offsets(bootstrap: str, topic: str, partitions: int) -> int:
    """How many offsets the topic has: its records, and the markers of transactions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", **QUIET})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=WAIT_SECONDS)[1]
            for number in range(partitions)
        ]
    finally:
        consumer.close()
    return sum(ends)
