"""A compacted topic read to its end: what it says now, of all that was committed before the call.

The end is the last stable offset at the time of the call, so an open transaction, even one of the
caller's own, is not waited for. `read_range` reads any range of offsets instead.
"""

from collections.abc import Callable, Mapping

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import TimedOut
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

IDLE_MS_MAX = 60_000
POLL_MS = 100
FIRST = Offset(0)
COMMITTED = Isolation.READ_COMMITTED
RULES = ConsumerRules(fetch=FetchRules(isolation=COMMITTED), reset=Reset.EARLIEST)

Places = Mapping[TopicPartition, Offset]


class EndNotReached(TimedOut):
    """Nothing more of a topic could be read, though its end was further on."""


async def committed_ends(cluster: Cluster, topic: str) -> dict[TopicPartition, Offset]:
    """Where the committed records of each partition end now."""
    view = await cluster.need((topic,))
    places = [TopicPartition(topic, one.index) for one in view.topics[topic].partitions]
    return await offsets_of(cluster, places, When.LATEST, isolation=COMMITTED)


async def last_values(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """The last value of each key; keys whose last record is a tombstone are left out."""
    ends = await committed_ends(cluster, topic)
    found: dict[bytes, bytes] = {}

    def take(record: ConsumedRecord) -> None:
        if record.key is None:
            return
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value

    await read_range(cluster, dict.fromkeys(ends, FIRST), ends, take)
    return found


async def live_keys(cluster: Cluster, topic: str) -> set[bytes]:
    """The keys whose last record in any partition is no tombstone: no value is kept. A key that
    more partitions have moved is in two, and the order of these two is not known.
    """
    ends = await committed_ends(cluster, topic)
    found: set[tuple[int, bytes]] = set()

    def take(record: ConsumedRecord) -> None:
        if record.key is None:
            return
        if record.value is None:
            found.discard((record.partition, record.key))
        else:
            found.add((record.partition, record.key))

    await read_range(cluster, dict.fromkeys(ends, FIRST), ends, take)
    return {key for _, key in found}


async def read_range(
    cluster: Cluster,
    starts: Places,
    ends: Places,
    take: Callable[[ConsumedRecord], None],
    *,
    idle_ms_max: int = IDLE_MS_MAX,
) -> None:
    """Hands every committed record in [start, end) to `take`, in order within each partition, and
    those behind the end that came along. EndNotReached when nothing moves for `idle_ms_max`.
    """
    starts = {place: start for place, start in starts.items() if start < ends[place]}
    if not starts:
        return
    async with Consumer(cluster, rules=RULES) as consumer:
        await consumer.assign(starts)
        for place, start in starts.items():
            consumer.seek(place, start)
        reached = consumer.positions()
        deadline_ms = cluster.clock.monotonic_ms() + idle_ms_max
        while any(reached.get(place, FIRST) < ends[place] for place in starts):
            if cluster.clock.monotonic_ms() >= deadline_ms:
                raise EndNotReached(f"{_topics(starts)} could not be read to its end")
            for record in await consumer.poll(wait_ms=POLL_MS):
                take(record)
            before, reached = reached, consumer.positions()
            if reached != before:
                deadline_ms = cluster.clock.monotonic_ms() + idle_ms_max


def _topics(places: Places) -> str:
    return ", ".join(f"topic {name}" for name in sorted({place.topic for place in places}))
