"""Follows a table's topic into a store that holds the latest row of each key.

The store keeps how far it has read beside the rows, in one step with them. So a follower that is
killed goes on where the store is, and a store that starts empty is filled from the first record.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.client.consume.compacted_topic import RULES, committed_ends
from penstock.client.consume.consumer import Consumer
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.spark.pipelines.cdc.latest_rows import Row, row_of

WAIT_MS = 200
LOOK_MS = 10_000  # between two looks at how many partitions there are
ROWS_AT_ONCE = 2_000


class RowStore(Protocol):
    def positions(self) -> dict[int, int]:
        """The next offset of each partition that was read."""
        ...

    def write(self, rows: list[Row], positions: Mapping[int, int]) -> None:
        """Takes the rows that are later than its own, and the positions: both or neither."""
        ...


async def follow(
    cluster: Cluster,
    topic: str,
    store: RowStore,
    goes_on: Callable[[], bool] = lambda: False,
) -> int:
    """Writes what the topic has now, and then what comes while `goes_on` says so. Then it ends when
    the topic has more partitions, and is to be called again. Returns how many records it has read.
    """
    ends = await committed_ends(cluster, topic)
    count = 0
    async with Consumer(cluster, rules=RULES) as consumer:
        await consumer.assign(ends)
        begin = store.positions()
        for place in ends:
            consumer.seek(place, begin.get(place.partition, 0))
        written = _offsets(consumer)
        look_ms = cluster.clock.monotonic_ms() + LOOK_MS
        while goes_on() or any(consumer.positions().get(one, 0) < ends[one] for one in ends):
            records = await consumer.poll(wait_ms=WAIT_MS, records_max=ROWS_AT_ONCE)
            reached = _offsets(consumer)
            if records or reached != written:
                store.write([row_of(record) for record in records], reached)
                written = reached
                count += len(records)
            if goes_on() and cluster.clock.monotonic_ms() >= look_ms:
                look_ms += LOOK_MS
                if await _partition_count(cluster, topic) != len(ends):
                    break
    return count


async def _partition_count(cluster: Cluster, topic: str) -> int:
    found = (await cluster.refresh((topic,))).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def _offsets(consumer: Consumer) -> dict[int, int]:
    positions: dict[TopicPartition, int] = {**consumer.positions()}
    return {place.partition: offset for place, offset in positions.items()}
