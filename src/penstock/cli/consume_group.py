"""`penstock consume --group`: one member's share of a topic, printed and committed.

Without --follow it ends when the group has got to where the topic ended at the start: its own
partitions by what it printed, those of other members by what they committed.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cli.record_lines import Printer
from penstock.client.consume.consumer import ConsumerRules
from penstock.client.consume.group_consumer import GroupConsumer, GroupRules
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.world.entropy import RealEntropy

RECORDS_AT_ONCE = 2_000
WAIT_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    group: str
    topic: str
    follow: bool
    commit: bool
    count_max: int | None
    reading: ConsumerRules


async def print_group(cluster: Cluster, wanted: GroupReading, printer: Printer) -> None:
    view = await cluster.need((wanted.topic,))
    places = [TopicPartition(wanted.topic, p.index) for p in view.topics[wanted.topic].partitions]
    starts = await offsets_of(cluster, places, When.EARLIEST)
    ends = await offsets_of(cluster, places, When.LATEST, isolation=wanted.reading.fetch.isolation)
    unread = {place: end for place, end in ends.items() if end > starts[place]}
    rules = GroupRules(
        auto_commit_ms=GroupRules().auto_commit_ms if wanted.commit else None,
        reading=wanted.reading,
    )
    async with GroupConsumer(
        cluster, wanted.group, entropy=RealEntropy(), topics=(wanted.topic,), rules=rules
    ) as consumer:
        try:
            await _print_all(consumer, None if wanted.follow else unread, wanted.count_max, printer)
        except asyncio.CancelledError:
            # Ctrl-C: what was printed is done with.
            if wanted.commit:
                await consumer.commit()
            raise


async def _print_all(
    consumer: GroupConsumer,
    ends: Mapping[TopicPartition, Offset] | None,
    count_max: int | None,
    printer: Printer,
) -> None:
    left = count_max
    while left is None or left > 0:
        records_max = RECORDS_AT_ONCE if left is None else min(left, RECORDS_AT_ONCE)
        records = await consumer.poll(wait_ms=WAIT_MS, records_max=records_max)
        for record in records:
            printer.print(record)
        printer.flush()
        if left is not None:
            left -= len(records)
        if ends is not None and await _all_read(consumer, ends):
            break


async def _all_read(consumer: GroupConsumer, ends: Mapping[TopicPartition, Offset]) -> bool:
    positions, mine = consumer.positions(), frozenset(consumer.assignment)
    if any(positions.get(place, -1) < ends[place] for place in ends if place in mine):
        return False
    others = [place for place in ends if place not in mine]
    committed = await consumer.committed(others) if others else {}
    return all(committed.get(place, -1) >= ends[place] for place in others)
