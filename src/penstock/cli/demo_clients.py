"""The two clients of the demo behind one face: write all, read all, tell how far it is."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from penstock.cli.connect import with_cluster
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.network.cluster import Cluster
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition
from penstock.model.limit import KIB

try:
    import confluent_kafka
except ImportError:  # it is not needed to run a node, so not everyone has it
    confluent_kafka = None  # type: ignore[assignment]  # a module, or None where there is none

RECORDS_AT_ONCE = 10_000
SILENCE_SECONDS_MAX = 20.0

Records = Iterator[tuple[bytes, bytes]]
Found = list[tuple[int, bytes, bytes]]  # partition, key, value


Written = Callable[[int], None]  # told how many more were written
Read = Callable[[Found], None]  # told what more was read


class DemoError(PenstockError):
    """A client could not write, or nothing came to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    client: str
    produce: Callable[[Records, Written], None]
    consume: Callable[[int, Read], None]


def confluent_job(bootstrap: str, topic: str) -> Job | None:
    """With confluent-kafka; None where it is not installed."""
    if confluent_kafka is None:
        return None
    return Job(
        client=f"confluent-kafka {confluent_kafka.__version__}",
        produce=partial(_confluent_produce, bootstrap, topic),
        consume=partial(_confluent_consume, bootstrap, topic),
    )


def penstock_job(bootstrap: str, topic: str) -> Job:
    """With Penstock's own client."""
    return Job(
        client="penstock",
        produce=partial(_penstock_produce, bootstrap, topic),
        consume=partial(_penstock_consume, bootstrap, topic),
    )


def _confluent_produce(bootstrap: str, topic: str, records: Records, written: Written) -> None:
    failed: list[str] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            "partitioner": "murmur2_random",
            "delivery.report.only.error": True,
        },
        on_delivery=lambda error, _: failed.append(str(error)),
    )
    count = 0
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count == RECORDS_AT_ONCE:
            producer.poll(0)
            written(count)
            count = 0
    left = producer.flush(SILENCE_SECONDS_MAX)
    if failed or left:
        raise DemoError(failed[0] if failed else f"{left} records were not delivered in time")
    written(count)


def _confluent_consume(bootstrap: str, topic: str, count: int, read: Read) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "penstock-demo",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=SILENCE_SECONDS_MAX)
        partitions = found.topics[topic].partitions
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(topic, p, start) for p in partitions])
        while count > 0:
            messages = consumer.consume(RECORDS_AT_ONCE, SILENCE_SECONDS_MAX)
            if not messages:
                raise DemoError(f"nothing came for {SILENCE_SECONDS_MAX} s; {count} are missing")
            records = [
                (m.partition() or 0, m.key() or b"", m.value() or b"")
                for m in messages
                if m.error() is None
            ]
            count -= len(records)
            read(records)
    except confluent_kafka.KafkaException as error:
        [error] = error.args
        raise DemoError(f"the node does not answer: {error.str()}") from error
    finally:
        consumer.close()


def _penstock_produce(bootstrap: str, topic: str, records: Records, written: Written) -> None:
    rules = ProducerRules(batches=BatchRules(linger_ms=20, batch_bytes_max=256 * KIB))

    async def work(cluster: Cluster) -> None:
        async with Producer(cluster, rules=rules) as producer:
            while some := list(islice(records, RECORDS_AT_ONCE)):
                deliveries = [await producer.send(topic, value, key=key) for key, value in some]
                await asyncio.gather(*deliveries)
                written(len(some))

    with_cluster(bootstrap, work)


def _penstock_consume(bootstrap: str, topic: str, count: int, read: Read) -> None:
    async def work(cluster: Cluster) -> None:
        view = await cluster.need((topic,))
        partitions = [TopicPartition(topic, p.index) for p in view.topics[topic].partitions]
        left = count
        async with Consumer(cluster, rules=ConsumerRules(reset=Reset.EARLIEST)) as consumer:
            await consumer.assign(partitions)
            while left > 0:
                records = await consumer.poll(
                    wait_ms=int(SILENCE_SECONDS_MAX * 1000), records_max=RECORDS_AT_ONCE
                )
                if not records:
                    raise DemoError(f"nothing came for a while; {left} are missing")
                read([(r.partition, r.key or b"", r.value or b"") for r in records])
                left -= len(records)

    with_cluster(bootstrap, work)
