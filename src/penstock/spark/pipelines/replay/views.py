"""The topic of pointers: which version stands, and how it is replaced.

Whoever moves a pointer takes the view's transactional id first: anyone else who is about to do so
is fenced by that, and what is read afterwards is still true when the new pointer is committed.
"""

import asyncio
from collections.abc import Mapping

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import TimedOut
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.pipelines.replay.pointer import Pointer, decode, encode, goes_forward

READ_MS_MAX = 60_000
POLL_MS = 100

Ends = Mapping[TopicPartition, Offset]


async def standing(cluster: Cluster, topic: str, view: str) -> Pointer | None:
    """The version that readers read; None: none yet."""
    ends = await ends_of(cluster, topic)
    rules = ConsumerRules(
        fetch=FetchRules(isolation=Isolation.READ_COMMITTED), reset=Reset.EARLIEST
    )
    found: bytes | None = None
    try:
        async with asyncio.timeout(READ_MS_MAX / 1000), Consumer(cluster, rules=rules) as consumer:
            await consumer.assign(ends)
            consumer.seek_to_beginning()
            for place in ends:
                await consumer.position(place)
            while any(consumer.positions()[place] < end for place, end in ends.items()):
                for record in await consumer.poll(wait_ms=POLL_MS):
                    if record.key == view.encode():
                        found = record.value
    except TimeoutError as error:
        raise TimedOut(f"topic {topic} could not be read to its end") from error
    return None if found is None else decode(view.encode(), found)


async def switch(cluster: Cluster, topic: str, wanted: Pointer) -> Pointer:
    """Readers read this version from now on, or the newer one that they read already."""
    async with TransactionalProducer(cluster, f"{topic}.{wanted.view}") as producer:
        found = await standing(cluster, topic, wanted.view)
        if found is not None and not goes_forward(found, wanted):
            return found
        key, value = encode(wanted)
        async with producer.transaction():
            await producer.send(topic, value, key=key)
    return wanted


async def ends_of(cluster: Cluster, topic: str) -> Ends:
    """Where the committed records of each partition end now."""
    view = await cluster.need([topic])
    places = [TopicPartition(topic, index) for index in range(len(view.topics[topic].partitions))]
    return await offsets_of(cluster, places, When.LATEST, isolation=Isolation.READ_COMMITTED)


def behind(reached: Ends, ends: Ends) -> int:
    """How many offsets lie between."""
    return sum(max(0, end - reached.get(place, 0)) for place, end in ends.items())
