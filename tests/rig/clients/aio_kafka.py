"""aiokafka: asyncio, and the oldest protocol versions of all clients in use."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from rig.clients.interface import (
    PATIENCE_SECONDS,
    REQUEST_BYTES_MAX,
    Found,
    Message,
    Receipt,
    Refused,
)


class AioKafkaClient:
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, messages: Sequence[Message], *, codec: str = "none", alone: bool = False
    ) -> list[Receipt | Refused]:
        async def send_all() -> list[Receipt | Refused]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                enable_idempotence=True,
                compression_type=None if codec == "none" else codec,
                max_request_size=REQUEST_BYTES_MAX,
                max_batch_size=1 if alone else 65536,
                linger_ms=0 if alone else 5,
            )
            await producer.start()
            try:
                pending = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        headers=list(message.headers),
                        partition=message.partition,
                        timestamp_ms=message.timestamp_ms,
                    )
                    for message in messages
                ]
                return [await receipt_of(future) for future in pending]
            finally:
                await producer.stop()

        return run(send_all)

    def read(self, topic: str, partition: int, *, from_offset: int, count: int) -> list[Found]:
        async def read_all() -> list[Found]:
            asked = TopicPartition(topic, partition)
            found: list[Found] = []
            async with self._consumer(asked) as consumer:
                consumer.seek(asked, from_offset)
                deadline = time.monotonic() + PATIENCE_SECONDS
                while len(found) < count and time.monotonic() < deadline:
                    batch = await consumer.getmany(asked, timeout_ms=200)
                    found += [found_of(record) for record in batch.get(asked, [])]
            return found

        return run(read_all)

    def offset_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        async def ask() -> tuple[int, int]:
            asked = TopicPartition(topic, partition)
            async with self._consumer(asked) as consumer:
                first = await consumer.beginning_offsets([asked])
                end = await consumer.end_offsets([asked])
            return first[asked], end[asked]

        return run(ask)

    def offset_at_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        async def ask() -> int | None:
            asked = TopicPartition(topic, partition)
            async with self._consumer(asked) as consumer:
                answer = (await consumer.offsets_for_times({asked: timestamp_ms}))[asked]
            return None if answer is None else answer.offset

        return run(ask)

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: dict[str, str] | None = None
    ) -> None:
        wanted = NewTopic(topic, partitions, 1, topic_configs=settings or {})
        answer = self._administer(lambda admin: admin.create_topics([wanted]))
        [(_, code, *rest)] = answer.topic_errors
        refuse_unless_none(code, rest)

    def delete_topic(self, topic: str) -> None:
        answer = self._administer(lambda admin: admin.delete_topics([topic]))
        [(_, code)] = answer.topic_error_codes
        refuse_unless_none(code)

    def topics(self) -> set[str]:
        return set(self._administer(lambda admin: admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        [described] = self._administer(lambda admin: admin.describe_topics([topic]))
        return len(described["partitions"])

    def add_partitions(self, topic: str, *, total: int) -> None:
        wanted = {topic: NewPartitions(total)}
        self._administer(lambda admin: admin.create_partitions(wanted))

    def topic_settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        [answer] = self._administer(lambda admin: admin.describe_configs([resource]))
        [(code, message, _, _, entries)] = answer.resources
        refuse_unless_none(code, message)
        return {name: value for name, value, *_ in entries}

    def alter_topic(self, topic: str, settings: dict[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, settings)
        [answer] = self._administer(lambda admin: admin.alter_configs([resource]))
        [(code, message, *_)] = answer.resources
        refuse_unless_none(code, message)

    def delete_records(self, topic: str, partition: int, *, before_offset: int) -> int:
        asked = TopicPartition(topic, partition)
        wanted = {asked: RecordsToDelete(before_offset)}
        return int(self._administer(lambda admin: admin.delete_records(wanted))[asked])

    def node_count(self) -> int:
        return len(self._administer(lambda admin: admin.describe_cluster())["brokers"])

    def close(self) -> None:
        """Every call made its own connection and has closed it."""

    def _administer(self, call: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
        async def ask() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await call(admin)
            except KafkaError as failure:
                raise Refused(failure.errno, str(failure)) from failure
            finally:
                await admin.close()

        return run(ask)

    @asynccontextmanager
    async def _consumer(self, asked: TopicPartition) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_partition_fetch_bytes=REQUEST_BYTES_MAX,
        )
        await consumer.start()
        try:
            consumer.assign([asked])
            yield consumer
        finally:
            await consumer.stop()


def run(work: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS * 2))


def refuse_unless_none(code: int, message: object = "") -> None:
    if code != 0:
        raise Refused(code, str(message))


async def receipt_of(future: asyncio.Future[Any]) -> Receipt | Refused:
    try:
        stored = await future
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
