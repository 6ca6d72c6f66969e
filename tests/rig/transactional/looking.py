"""What is there to be seen once and for all: a topic's values, a group's offset."""

import confluent_kafka
from confluent_kafka import TopicPartition

from rig.clients.confluent import QUIET
from rig.transactional.interface import PATIENCE_SECONDS


def read(bootstrap: str, topic: str, *, partitions: int = 1, committed: bool = True) -> list[bytes]:
    """All that a reader sees up to the end, partition after partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "none",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    consumer.assign([TopicPartition(topic, index, 0) for index in found])
    unfinished = set(found)
    while unfinished:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        if message.error() is not None:
            unfinished.discard(message.partition())
        else:
            found[message.partition() or 0].append(message.value() or b"")
    consumer.close()
    return [value for values in found.values() for value in values]


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    """Of partition 0; negative when there is none. Waits for transactions that will tell."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "log_level": QUIET, "group.id": group}
    )
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_SECONDS)
    consumer.close()
    return int(found.offset)
