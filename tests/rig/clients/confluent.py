"""confluent-kafka, which is librdkafka: what most Python services use."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from rig.clients.interface import (
    PATIENCE_SECONDS,
    REQUEST_BYTES_MAX,
    Found,
    Message,
    Receipt,
    Refused,
)

# Syslog's "critical": librdkafka otherwise tells standard error of every broker that went away.
QUIET = 2


class ConfluentClient:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET})
        self._asking = self._consumer()

    def produce(
        self, topic: str, messages: Sequence[Message], *, codec: str = "none", alone: bool = False
    ) -> list[Receipt | Refused]:
        receipts: list[Receipt | Refused | None] = [None] * len(messages)
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "log_level": QUIET,
                "enable.idempotence": True,
                "compression.type": codec,
                "message.max.bytes": REQUEST_BYTES_MAX,
                "batch.num.messages": 1 if alone else 10_000,
                # librdkafka's own default hashes keys with CRC32; this is Java's way.
                "partitioner": "murmur2_random",
                "sticky.partitioning.linger.ms": 0,
            }
        )
        for index, message in enumerate(messages):
            options: dict[str, Any] = {"headers": list(message.headers)}
            if message.partition is not None:
                options["partition"] = message.partition
            if message.timestamp_ms is not None:
                options["timestamp"] = message.timestamp_ms
            producer.produce(
                topic,
                message.value,
                message.key,
                on_delivery=receipt_taker(receipts, index),
                **options,
            )
        assert producer.flush(PATIENCE_SECONDS) == 0
        return [receipt for receipt in receipts if receipt is not None]

    def read(self, topic: str, partition: int, *, from_offset: int, count: int) -> list[Found]:
        consumer = self._reader(topic, partition)
        found: list[Found] = []
        try:
            consumer.seek(TopicPartition(topic, partition, from_offset))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None:
                    found.append(found_of(message))
        finally:
            consumer.close()
        return found

    def offset_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        first, end = self._asking.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=PATIENCE_SECONDS
        )
        return first, end

    def offset_at_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        [answer] = self._asking.offsets_for_times(
            [TopicPartition(topic, partition, timestamp_ms)], timeout=PATIENCE_SECONDS
        )
        if answer.error is not None:
            raise Refused(answer.error.code(), answer.error.str())
        return answer.offset if answer.offset >= 0 else None

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: dict[str, str] | None = None
    ) -> None:
        wanted = NewTopic(topic, num_partitions=partitions, config=settings or {})
        settle(self._admin.create_topics([wanted])[topic])

    def delete_topic(self, topic: str) -> None:
        settle(self._admin.delete_topics([topic])[topic])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=PATIENCE_SECONDS).topics)

    def partition_count(self, topic: str) -> int:
        collection = confluent_kafka.TopicCollection([topic])
        return len(settle(self._admin.describe_topics(collection)[topic]).partitions)

    def add_partitions(self, topic: str, *, total: int) -> None:
        settle(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def topic_settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = settle(self._admin.describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    def alter_topic(self, topic: str, settings: dict[str, str]) -> None:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        settle(self._admin.incremental_alter_configs([resource])[resource])

    def delete_records(self, topic: str, partition: int, *, before_offset: int) -> int:
        asked = TopicPartition(topic, partition, before_offset)
        return settle(self._admin.delete_records([asked])[asked]).low_watermark

    def node_count(self) -> int:
        return len(settle(self._admin.describe_cluster()).nodes)

    def close(self) -> None:
        self._asking.close()
        del self._admin

    def _reader(self, topic: str, partition: int) -> confluent_kafka.Consumer:
        """One that has got its first message: until then a seek is refused."""
        consumer = self._consumer()
        # Where no leader is known yet, librdkafka asks for the first offset by a timer only.
        consumer.list_topics(topic, timeout=PATIENCE_SECONDS)
        consumer.assign([TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
        assert consumer.poll(PATIENCE_SECONDS) is not None, f"nothing was found in {topic}"
        return consumer

    def _consumer(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "log_level": QUIET,
                "group.id": "unused-by-assignment",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": REQUEST_BYTES_MAX,
                # A seek waits until the fetch before it has come back.
                "fetch.wait.max.ms": 20,
            }
        )


def settle(pending: Future[Any]) -> Any:
    try:
        return pending.result(PATIENCE_SECONDS)
    except KafkaException as failure:
        error = failure.args[0]
        raise Refused(error.code(), error.str()) from failure


def receipt_taker(receipts: list[Receipt | Refused | None], index: int) -> Callable[..., None]:
    def take(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            receipts[index] = Refused(error.code(), error.str())
        else:
            receipts[index] = Receipt(partition=message.partition(), offset=message.offset())

    return take


def found_of(message: confluent_kafka.Message) -> Found:
    error = message.error()
    if error is not None:
        raise Refused(error.code(), error.str())
    return Found(
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
