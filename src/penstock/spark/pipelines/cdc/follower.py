"""Follows a table's topic into a store that holds the latest row of each key.

The store keeps how far it has read beside the rows, in one step with them. So a follower that is
killed goes on where the store is, and a store that starts empty is filled from the first record.

A topic that was deleted and created again has other records at these offsets. It is refused, not
read from its first record: rows that only the old topic had would stay, and a store that emptied
itself would turn a topic deleted by mistake into a search without results.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from penstock.client.consume.compacted_topic import RULES, committed_ends
from penstock.client.consume.consumer import Consumer
from penstock.client.network.cluster import Cluster
from penstock.model.error import PenstockError
from penstock.model.identity import NO_TOPIC_ID, TopicPartition
from penstock.spark.pipelines.cdc.latest_rows import Row, row_of
from penstock.spark.pipelines.cdc.store_progress import (
    Progress,
    forgettable_before,
    later_positions,
    of_topic,
)

WAIT_MS = 200
LOOK_MS = 10_000  # between two looks at how many partitions there are
ROWS_AT_ONCE = 2_000


class OtherTopic(PenstockError):
    """A store has rows of another topic than the one that is to be read, though by its name."""


class RowStore(Protocol):
    @property
    def title(self) -> str:
        """What it is and where, such as `index FILE`."""
        ...

    @property
    def how_to_empty(self) -> str:
        """What its user does so that it is filled from the first record."""
        ...

    def progress(self) -> Progress: ...

    def write(self, rows: list[Row], progress: Progress) -> None:
        """Takes the rows that are later than its own, and the progress: both or neither."""
        ...

    def forget_deleted(self, before: int) -> None:
        """Drops the places of rows that were deleted in front of this position."""
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
    partitions = [place.partition for place in ends]
    count = 0
    async with Consumer(cluster, rules=RULES) as consumer:
        await consumer.assign(ends)
        written = _checked(cluster, topic, store, store.progress())
        store.forget_deleted(forgettable_before(written, partitions))
        for place in ends:
            consumer.seek(place, written.next_offsets.get(place.partition, 0))
        look_ms = cluster.clock.monotonic_ms() + LOOK_MS
        while goes_on() or any(consumer.positions().get(one, 0) < ends[one] for one in ends):
            records = await consumer.poll(wait_ms=WAIT_MS, records_max=ROWS_AT_ONCE)
            # Fetches name the topic by the id that is known when they are sent.
            written = _checked(cluster, topic, store, written)
            next_offsets = _offsets(consumer)
            if records or next_offsets != written.next_offsets:
                rows = [(record.partition, row_of(record)) for record in records]
                reached = replace(
                    written,
                    next_offsets=next_offsets,
                    change_positions=later_positions(written.change_positions, rows),
                )
                store.write([row for _, row in rows], reached)
                written = reached
                count += len(records)
            if goes_on() and cluster.clock.monotonic_ms() >= look_ms:
                look_ms += LOOK_MS
                if await _partition_count(cluster, topic) != len(ends):
                    break
                store.forget_deleted(forgettable_before(written, partitions))
    return count


def _checked(cluster: Cluster, topic: str, store: RowStore, known: Progress) -> Progress:
    """What is known, if it is of the topic that the cluster has now."""
    topic_id = cluster.view.topic_id(topic)  # none while the topic is not there, too
    found = of_topic(known, None if topic_id == NO_TOPIC_ID else topic_id)
    if found is None:
        raise OtherTopic(
            f"{store.title} has rows of another topic, or of topic {topic} before it was deleted"
            f" and created again: {store.how_to_empty}"
        )
    return found


async def _partition_count(cluster: Cluster, topic: str) -> int:
    found = (await cluster.refresh((topic,))).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def _offsets(consumer: Consumer) -> dict[int, int]:
    positions: dict[TopicPartition, int] = {**consumer.positions()}
    return {place.partition: offset for place, offset in positions.items()}
