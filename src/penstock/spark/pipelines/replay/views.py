"""The topic of pointers: which version stands, and how it is replaced.

Whoever moves a pointer takes the view's transactional id first: anyone else who is about to do so
is fenced by that, and what is read afterwards is still true when the new pointer is committed.
"""

from collections.abc import Mapping

from penstock.client.consume.compacted_topic import last_values
from penstock.client.network.cluster import Cluster
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.pipelines.replay.pointer import Pointer, decode, encode, goes_forward

Ends = Mapping[TopicPartition, Offset]


async def standing(cluster: Cluster, topic: str, view: str) -> Pointer | None:
    """The version that readers read; None: none yet."""
    found = (await last_values(cluster, topic)).get(view.encode())
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


def behind(reached: Ends, ends: Ends) -> int:
    """How many offsets lie between."""
    return sum(max(0, end - reached.get(place, 0)) for place, end in ends.items())
