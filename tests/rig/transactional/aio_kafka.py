"""Transactions of aiokafka. It sends a group's name with offsets, and nothing of the member."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced

from rig.transactional.interface import TRANSACTION_MS, Fenced, Reads, Transactional

POLL_MS = 100


class AioKafkaTransactions:
    name = "aiokafka"

    def producer(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> Transactional:
        return AioKafkaProducer(bootstrap, transactional_id, timeout_ms=timeout_ms)

    def reader(self, bootstrap: str, topic: str) -> Reads:
        return AioKafkaConsumer(bootstrap, topic, group=None)

    def member(self, bootstrap: str, topic: str, *, group: str, protocol: str) -> Reads:
        assert protocol == "classic"
        return AioKafkaConsumer(bootstrap, topic, group=group)


class AioKafkaProducer:
    def __init__(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(bootstrap, transactional_id, timeout_ms))

    async def _start(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer: Any = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        await self._producer.start()

    def begin(self) -> None:
        self._loop.run_until_complete(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        sending = self._producer.send_and_wait(topic, value, partition=partition)
        self._loop.run_until_complete(sending)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._send_offsets({TopicPartition(topic, 0): offset}, group)

    def send_offsets_of(self, member: Reads) -> None:
        assert isinstance(member, AioKafkaConsumer) and member.group is not None
        self._send_offsets(member.positions, member.group)

    def commit(self) -> None:
        with told_plainly():
            self._loop.run_until_complete(self._producer.commit_transaction())

    def abort(self) -> None:
        with told_plainly():
            self._loop.run_until_complete(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run_until_complete(self._producer.stop())
        self._loop.close()

    def _send_offsets(self, offsets: dict[TopicPartition, int], group: str) -> None:
        sending = self._producer.send_offsets_to_transaction(offsets, group)
        with told_plainly():
            self._loop.run_until_complete(sending)


class AioKafkaConsumer:
    def __init__(self, bootstrap: str, topic: str, *, group: str | None) -> None:
        self.group = group
        self.positions: dict[TopicPartition, int] = {}
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(bootstrap, topic))

    async def _start(self, bootstrap: str, topic: str) -> None:
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=self.group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        if self.group is None:
            self._consumer.assign([TopicPartition(topic, 0)])
        else:
            self._consumer.subscribe([topic])
        await self._consumer.start()

    def poll(self) -> list[bytes]:
        getting = self._consumer.getmany(timeout_ms=POLL_MS)
        batches = self._loop.run_until_complete(getting)
        for where, batch in batches.items():
            self.positions[where] = batch[-1].offset + 1
        return [record.value for batch in batches.values() for record in batch]

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


@contextmanager
def told_plainly() -> Iterator[None]:
    try:
        yield
    except (ProducerFenced, InvalidProducerEpoch) as failure:
        raise Fenced(str(failure)) from failure
