"""Reads the outputs of a pipeline while it runs: committed records only, over kills of the node."""

import asyncio
from collections.abc import Callable, Sequence

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.isolation import Isolation
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.spark.pipelines.commerce.proof import Output

RULES = ConsumerRules(fetch=FetchRules(isolation=Isolation.READ_COMMITTED), reset=Reset.EARLIEST)
POLL_MS = 500
RECORDS_AT_ONCE = 5_000


class Outputs:
    """Every record of some topics so far, in the order of each partition."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.found: dict[str, list[Output]] = {topic: [] for topic in topics}

    @property
    def count(self) -> int:
        return sum(map(len, self.found.values()))

    async def read_on(self, cluster: Cluster, progress: Callable[[int], None]) -> None:
        """Until it is cancelled."""
        view = await cluster.need(list(self.found))
        places = [
            TopicPartition(topic, partition.index)
            for topic in self.found
            for partition in view.topics[topic].partitions
        ]
        async with Consumer(cluster, rules=RULES) as consumer:
            await consumer.assign(places)
            while True:
                records = await consumer.poll(wait_ms=POLL_MS, records_max=RECORDS_AT_ONCE)
                for one in records:
                    key = (one.key or b"").decode()
                    self.found[one.topic].append(Output(key, one.value or b""))
                progress(len(records))
                await asyncio.sleep(0)
