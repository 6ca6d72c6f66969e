"""How busy partitions are, as far as any broker tells: two looks at ends and sizes of logs.

Bytes written are the growth of the leader's log. Where retention or compaction took from it
meanwhile, they are the records written times their mean size so far. What groups read is told by
the offsets that they commit; readers without a group are seen by nobody. Requests are those of
writers (`write_requests`).
"""

import asyncio
from collections.abc import Mapping, Sequence

from penstock.client.admin.groups import list_groups
from penstock.client.admin.last_batches import LogRange, ranges
from penstock.client.admin.replica_sizes import replica_sizes
from penstock.client.admin.write_requests import batches_per_record
from penstock.client.consume.group_offsets import committed_offsets
from penstock.client.consume.offsets import When, list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """At one moment. Partitions that nobody told of are missing."""

    at_ms: int
    start_offset: dict[TopicPartition, Offset]
    end_offset: dict[TopicPartition, Offset]
    size_bytes: dict[TopicPartition, int]  # of the leader's log
    committed: dict[tuple[str, TopicPartition], Offset]  # by group

    def record_bytes(self, place: TopicPartition) -> float:
        """The mean of what is stored; 0 where nothing is."""
        count = self.end_offset.get(place, 0) - self.start_offset.get(place, 0)
        return self.size_bytes.get(place, 0) / count if count > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRate:
    partition: TopicPartition
    records: float  # written, per second, and so are the others
    in_bytes: float
    out_bytes: float
    size_bytes: int
    requests: float | None = None  # that write; None: not known


async def measure_rates(cluster: Cluster, *, seconds: float) -> list[PartitionRate]:
    """Of all partitions that have a leader now and then, by name."""
    first = await look(cluster)
    await asyncio.sleep(seconds)
    then = await look(cluster)
    shares = await batches_per_record(cluster, written_between(first, then))
    return rates_between(first, then, batches_per_record=shares)


async def look(cluster: Cluster) -> Look:
    view = await cluster.refresh_all()
    places = [
        place
        for name, topic in sorted(view.topics.items())
        for one in topic.partitions
        if view.leader_of(place := TopicPartition(name, one.index)) is not None
    ]
    committed = await _committed(cluster)
    starts = await _offsets(cluster, places, When.EARLIEST)
    # Ends and sizes last, one right after the other: the rates are made of them.
    ends = await _offsets(cluster, places, When.LATEST)
    at_ms = cluster.clock.monotonic_ms()
    sizes = await replica_sizes(cluster)
    led = {}
    for place in places:
        leader = cluster.view.leader_of(place)
        size_bytes = None if leader is None else sizes.get(place, {}).get(leader)
        if size_bytes is not None:
            led[place] = size_bytes
    return Look(
        at_ms=at_ms, start_offset=starts, end_offset=ends, size_bytes=led, committed=committed
    )


def written_between(first: Look, then: Look) -> dict[TopicPartition, LogRange]:
    """The offsets written between two looks, without those that retention has deleted already."""
    starts = {
        place: max(end, then.start_offset.get(place, end))
        for place, end in first.end_offset.items()
    }
    return ranges(starts, then.end_offset)


def rates_between(
    first: Look,
    then: Look,
    *,
    batches_per_record: Mapping[TopicPartition, float] | None = None,
) -> list[PartitionRate]:
    seconds = max(then.at_ms - first.at_ms, 1) / 1000
    read: dict[TopicPartition, int] = {}
    for (group, place), offset in then.committed.items():
        before = first.committed.get((group, place))
        if before is not None:
            read[place] = read.get(place, 0) + max(0, offset - before)
    found = []
    for place, end in sorted(then.end_offset.items()):
        if place not in first.end_offset:
            continue
        written = max(0, end - first.end_offset[place])
        record_bytes = then.record_bytes(place) or first.record_bytes(place)
        size_bytes = then.size_bytes.get(place, 0)
        grown = size_bytes - first.size_bytes.get(place, size_bytes)
        kept = first.start_offset.get(place) == then.start_offset.get(place)
        in_bytes = float(grown) if kept and grown > 0 else written * record_bytes
        share = (batches_per_record or {}).get(place) if written else 0.0
        found.append(
            PartitionRate(
                partition=place,
                records=written / seconds,
                in_bytes=(in_bytes if written else 0.0) / seconds,
                out_bytes=read.get(place, 0) * record_bytes / seconds,
                size_bytes=size_bytes,
                requests=None if share is None else written * share / seconds,
            )
        )
    return found


async def _offsets(
    cluster: Cluster, places: Sequence[TopicPartition], when: When
) -> dict[TopicPartition, Offset]:
    listed = await list_offsets(cluster, dict.fromkeys(places, when))
    return {
        place: one.offset
        for place, one in listed.items()
        if not isinstance(one, Refused) and one.offset is not None
    }


async def _committed(cluster: Cluster) -> dict[tuple[str, TopicPartition], Offset]:
    found = {}
    coordinators = Coordinators(cluster)
    for group in await list_groups(cluster):
        try:
            offsets = await committed_offsets(coordinators, group.group_id)
        except Refused:
            continue  # it was deleted, or its coordinator is not there just now
        for place, one in offsets.items():
            if not isinstance(one, Refused):
                found[group.group_id, place] = one.offset
    return found
