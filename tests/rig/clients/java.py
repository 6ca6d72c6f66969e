"""The Java client and its AdminClient, in the JVM that all tests share."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from rig.apache_kafka.agent import JavaRefused, KafkaAgent
from rig.clients.interface import REQUEST_BYTES_MAX, Found, Message, Receipt, Refused


class JavaClient:
    name = "java"

    def __init__(self, *, agent: KafkaAgent, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._agent = agent

    def produce(
        self, topic: str, messages: Sequence[Message], *, codec: str = "none", alone: bool = False
    ) -> list[Receipt | Refused]:
        settings = {
            "compression.type": codec,
            "enable.idempotence": "true",
            "max.request.size": str(REQUEST_BYTES_MAX),
            "buffer.memory": str(8 * REQUEST_BYTES_MAX),
            "batch.size": "0" if alone else "16384",
            "linger.ms": "0" if alone else "5",
        }
        receipts = self._ask(
            "produce", topic=topic, messages=[told(one) for one in messages], settings=settings
        )
        return [receipt_of(receipt) for receipt in receipts]

    def read(self, topic: str, partition: int, *, from_offset: int, count: int) -> list[Found]:
        answer = self._ask(
            "read", topic=topic, partition=partition, from_offset=from_offset, count=count
        )
        return [found_of(record) for record in answer]

    def offset_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        first, end = self._ask("offset_bounds", topic=topic, partition=partition)
        return first, end

    def offset_at_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        answer: int | None = self._ask(
            "offset_at_time", topic=topic, partition=partition, timestamp_ms=timestamp_ms
        )
        return answer

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: dict[str, str] | None = None
    ) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions, settings=settings or {})

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def topics(self) -> set[str]:
        return set(self._ask("topics"))

    def partition_count(self, topic: str) -> int:
        return int(self._ask("partition_count", topic=topic))

    def add_partitions(self, topic: str, *, total: int) -> None:
        self._ask("add_partitions", topic=topic, total=total)

    def topic_settings(self, topic: str) -> dict[str, str]:
        return dict(self._ask("topic_settings", topic=topic))

    def alter_topic(self, topic: str, settings: dict[str, str]) -> None:
        self._ask("alter_topic", topic=topic, settings=settings)

    def delete_records(self, topic: str, partition: int, *, before_offset: int) -> int:
        return int(
            self._ask(
                "delete_records", topic=topic, partition=partition, before_offset=before_offset
            )
        )

    def node_count(self) -> int:
        return int(self._ask("node_count"))

    def close(self) -> None:
        """The JVM is not ours to end."""

    def _ask(self, operation: str, **arguments: Any) -> Any:
        try:
            return self._agent.ask(operation, bootstrap=self._bootstrap, **arguments)
        except JavaRefused as failure:
            raise Refused(failure.code, str(failure)) from failure


def told(message: Message) -> dict[str, Any]:
    return {
        "key": text_of(message.key),
        "value": text_of(message.value),
        "headers": [[name, text_of(value)] for name, value in message.headers],
        "partition": message.partition,
        "timestamp_ms": message.timestamp_ms,
    }


def receipt_of(answer: dict[str, Any]) -> Receipt | Refused:
    if "error" in answer:
        return Refused(answer["code"], answer["message"])
    return Receipt(partition=answer["partition"], offset=answer["offset"])


def found_of(answer: dict[str, Any]) -> Found:
    return Found(
        partition=answer["partition"],
        offset=answer["offset"],
        timestamp_ms=answer["timestamp_ms"],
        key=bytes_of(answer["key"]),
        value=bytes_of(answer["value"]),
        headers=tuple((name, bytes_of(value)) for name, value in answer["headers"]),
    )


def text_of(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
