"""kafka-python 3: the client written in Python alone."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from rig.clients.interface import (
    PATIENCE_SECONDS,
    REQUEST_BYTES_MAX,
    Found,
    Message,
    Receipt,
    Refused,
)


class KafkaPythonClient:
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def produce(
        self, topic: str, messages: Sequence[Message], *, codec: str = "none", alone: bool = False
    ) -> list[Receipt | Refused]:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=True,
            acks="all",
            compression_type=None if codec == "none" else codec,
            max_request_size=REQUEST_BYTES_MAX,
            batch_size=0 if alone else 65536,
            linger_ms=0 if alone else 5,
        )
        try:
            pending = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            producer.flush(timeout=PATIENCE_SECONDS)
            return [receipt_of(future) for future in pending]
        finally:
            producer.close(timeout=PATIENCE_SECONDS)

    def read(self, topic: str, partition: int, *, from_offset: int, count: int) -> list[Found]:
        asked = TopicPartition(topic, partition)
        found: list[Found] = []
        consumer = self._consumer()
        try:
            consumer.assign([asked])
            consumer.seek(asked, from_offset)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                for record in consumer.poll(timeout_ms=200).get(asked, []):
                    found.append(found_of(record))
        finally:
            consumer.close()
        return found

    def offset_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        asked = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            return consumer.beginning_offsets([asked])[asked], consumer.end_offsets([asked])[asked]
        finally:
            consumer.close()

    def offset_at_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        asked = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            answer = consumer.offsets_for_times({asked: timestamp_ms})[asked]
        finally:
            consumer.close()
        return None if answer is None else answer.offset

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: dict[str, str] | None = None
    ) -> None:
        wanted = {topic: {"num_partitions": partitions, "configs": settings or {}}}
        settle(lambda: self._admin.create_topics(wanted))

    def delete_topic(self, topic: str) -> None:
        settle(lambda: self._admin.delete_topics([topic]))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        [described] = self._admin.describe_topics([topic])
        return len(described["partitions"])

    def add_partitions(self, topic: str, *, total: int) -> None:
        settle(lambda: self._admin.create_partitions({topic: total}))

    def topic_settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = self._admin.describe_configs([resource], config_filter="all")
        [by_topic] = described.values()
        return {name: entry["value"] for name, entry in by_topic[topic].items()}

    def alter_topic(self, topic: str, settings: dict[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, settings)
        answer = self._admin.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
        # It neither raises nor keeps the code, but begins its text with it.
        if refusal := re.match(r"\[Error (\d+)\]", answer):
            raise Refused(int(refusal[1]), answer)
        assert answer == "OK", answer

    def delete_records(self, topic: str, partition: int, *, before_offset: int) -> int:
        asked = TopicPartition(topic, partition)
        answer = settle(lambda: self._admin.delete_records({asked: before_offset}))[asked]
        return int(answer["low_watermark"])

    def node_count(self) -> int:
        return len(self._admin.describe_cluster()["brokers"])

    def close(self) -> None:
        self._admin.close()

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_partition_fetch_bytes=REQUEST_BYTES_MAX,
        )


def settle(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except KafkaError as failure:
        raise Refused(failure.errno, str(failure)) from failure


def receipt_of(future: Any) -> Receipt | Refused:
    try:
        stored = future.get(timeout=PATIENCE_SECONDS)
    except KafkaError as failure:
        return Refused(failure.errno, str(failure))
    return Receipt(partition=stored.partition, offset=stored.offset)


def found_of(record: Any) -> Found:
    return Found(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(tuple(header) for header in record.headers),
    )
