"""The numbers that go into the pipeline, as many as are wanted at a time."""

from confluent_kafka import KafkaError, Message, Producer

from rig.clients.confluent import QUIET, ConfluentClient
from rig.pipeline.stream import (
    SINK,
    SINK_PARTITIONS,
    SOURCE,
    SOURCE_PARTITIONS,
    key_of,
    source_partition_of,
)

PATIENCE_SECONDS = 120.0


class Source:
    """Makes the topics of the pipeline, and writes to the first of them."""

    def __init__(self, bootstrap: str) -> None:
        self.written = 0
        client = ConfluentClient(bootstrap)
        client.create_topic(SOURCE, partitions=SOURCE_PARTITIONS)
        client.create_topic(SINK, partitions=SINK_PARTITIONS)
        client.close()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "enable.idempotence": True,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
            }
        )

    def write(self, count: int) -> None:
        """The next numbers; returns when they are stored."""
        for number in range(self.written, self.written + count):
            self._producer.produce(
                SOURCE,
                b"%d" % number,
                key_of(number),
                partition=source_partition_of(number),
                on_delivery=assert_stored,
            )
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        self.written += count


def assert_stored(error: KafkaError | None, _: Message) -> None:
    assert error is None, error
