"""What a test puts into a topic, and what it finds there."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.isolation import Isolation
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, TimedOut
from penstock.client.produce.producer import Producer
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.records.record import Headers

POLL_MS = 1_000
LOOK_AGAIN_SECONDS = 0.02

Text = str | bytes
GivenRecord = Text | tuple[Text | None, Text | None]  # a value, or a key and a value


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Records to be produced, as bytes."""

    topic: str
    records: tuple[tuple[bytes | None, bytes | None], ...]
    partition: int | None
    headers: Headers
    timestamp_ms: int | None


def given(
    topic: str,
    records: Iterable[GivenRecord],
    *,
    partition: int | None,
    headers: Mapping[str, Text | None] | None,
    timestamp_ms: int | None,
) -> Given:
    """TypeError for what is no list of records."""
    if isinstance(records, str | bytes):
        raise TypeError(f"records are a list, even of one: produce({topic!r}, [{records!r}])")
    return Given(
        topic=topic,
        records=tuple(map(_key_and_value, records)),
        partition=partition,
        headers=tuple((name, _bytes(value)) for name, value in (headers or {}).items()),
        timestamp_ms=timestamp_ms,
    )


async def produce(cluster: Cluster, wanted: Given) -> None:
    """Returns when all of them are acked; raises what became of the first that was not."""
    async with Producer(cluster) as producer:
        deliveries = [
            await producer.send(
                wanted.topic,
                value,
                key=key,
                headers=wanted.headers,
                timestamp_ms=wanted.timestamp_ms,
                partition=wanted.partition,
            )
            for key, value in wanted.records
        ]
        await producer.flush()
    outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def read_all(
    cluster: Cluster, topic: str, *, at_least: int, read_committed: bool, within_seconds: float
) -> list[ConsumedRecord]:
    """Everything in a topic now, by partition and offset, once there are so many records."""
    found: list[ConsumedRecord] = []
    try:
        async with asyncio.timeout(within_seconds):
            while True:
                found = await _read(cluster, topic, read_committed, needed=at_least == 0)
                if len(found) >= at_least:
                    return sorted(found, key=lambda record: (record.partition, record.offset))
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
    except TimeoutError:
        raise TimedOut(
            f"{topic}: {len(found)} of {at_least} records within {within_seconds} s"
        ) from None


async def _read(
    cluster: Cluster, topic: str, read_committed: bool, *, needed: bool
) -> list[ConsumedRecord]:
    """All records up to the end as it is now; none of a topic that does not exist yet, unless it
    is `needed`.
    """
    try:
        view = await cluster.need([topic], wait_ms=0)
    except Refused as refused:
        if needed or refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []
    partitions = [TopicPartition(topic, n) for n in range(len(view.topics[topic].partitions))]
    isolation = Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED
    rules = ConsumerRules(fetch=FetchRules(isolation=isolation), reset=Reset.EARLIEST)
    found: list[ConsumedRecord] = []
    async with Consumer(cluster, rules=rules) as consumer:
        starts = await consumer.beginning_offsets(partitions)
        ends = await consumer.end_offsets(partitions)
        unread = [one for one in partitions if starts[one] < ends[one]]
        await consumer.assign(unread)
        consumer.seek_to_beginning()
        while any(consumer.positions().get(one, starts[one]) < ends[one] for one in unread):
            found += await consumer.poll(wait_ms=POLL_MS)
    return found


def _key_and_value(record: GivenRecord) -> tuple[bytes | None, bytes | None]:
    if isinstance(record, tuple) and len(record) == 2:
        return _bytes(record[0]), _bytes(record[1])
    if isinstance(record, str | bytes):
        return None, _bytes(record)
    raise TypeError(f"a record is a value, or a tuple of key and value, not {record!r}")


def _bytes(text: Text | None) -> bytes | None:
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"keys and values are str, bytes or None, not {text!r}")
