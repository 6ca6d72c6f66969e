"""What a reader of committed records sees of a topic, to its last stable offset."""

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition

FETCH = FetchRules(wait_ms_max=20, isolation=Isolation.READ_COMMITTED)
RULES = ConsumerRules(reset=Reset.EARLIEST, fetch=FETCH)


async def committed_values(cluster: Cluster, topic: str, *, settled: bool = True) -> list[bytes]:
    """Partition by partition, in order. An end is told before the partitions know of it: where all
    transactions are ended, this waits until all is `settled`.
    """
    view = await cluster.need([topic])
    places = [TopicPartition(topic, one.index) for one in view.topics[topic].partitions]
    values: dict[TopicPartition, list[bytes]] = {place: [] for place in places}
    async with Consumer(cluster, rules=RULES) as consumer:
        await consumer.assign(places)
        ends = await consumer.end_offsets(places)
        while settled and ends != await offsets_of(cluster, places, When.LATEST):
            ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for record in await consumer.poll(wait_ms=100):
                place = TopicPartition(record.topic, record.partition)
                values[place].append(record.value or b"")
    return [value for place in places for value in values[place]]
