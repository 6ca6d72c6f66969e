"""How far a group is behind, partition by partition, as a client can find out.

Committed offsets come from the coordinator, the ends of the logs from their leaders, and the age of
the first unread record from reading it: one fetch for each partition that is behind.
"""

from collections.abc import Iterable, Mapping

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_offsets import Committed, committed_offsets
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.groups.lag import Lag, first_unread, lag
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import KIB
from penstock.model.offset import Offset

READ_MS_MAX = 5_000
PARTITION_BYTES = 16 * KIB  # one batch is enough, and comes whole whatever its size


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    partition: TopicPartition
    committed: Committed | None
    start_offset: Offset | None  # None, like the end, where the partition is gone
    end_offset: Offset | None
    lag: Lag | None  # None where nothing is committed, or the partition is gone


async def group_lag(
    cluster: Cluster,
    coordinators: Coordinators,
    group: str,
    *,
    also: Iterable[TopicPartition] = (),
) -> list[PartitionLag]:
    """For all partitions that the group has committed, and `also` for others, in order."""
    committed: dict[TopicPartition, Committed] = {}
    for place, result in (await committed_offsets(coordinators, group)).items():
        if isinstance(result, Refused):
            raise result
        committed[place] = result
    places = sorted({*committed, *also})
    view = await cluster.refresh_all()
    led = [place for place in places if view.leader_of(place) is not None]
    starts = await offsets_of(cluster, led, When.EARLIEST)
    ends = await offsets_of(cluster, led, When.LATEST)
    unread = {}
    for place in led:
        if place in committed:
            end = max(ends[place], starts[place])
            offset = first_unread(
                committed[place].offset, start_offset=starts[place], end_offset=end
            )
            if offset is not None:
                unread[place] = offset
    since_ms = await timestamps_at(cluster, unread)
    now_ms = cluster.clock.now_ms()
    return [
        PartitionLag(
            partition=place,
            committed=committed.get(place),
            start_offset=starts.get(place),
            end_offset=ends.get(place),
            lag=lag(
                committed[place].offset,
                start_offset=starts[place],
                end_offset=max(ends[place], starts[place]),
                unread_since_ms=since_ms.get(place),
                now_ms=now_ms,
            )
            if place in committed and place in starts
            else None,
        )
        for place in places
    ]


async def timestamps_at(
    cluster: Cluster, offsets: Mapping[TopicPartition, Offset], *, wait_ms_max: int = READ_MS_MAX
) -> dict[TopicPartition, int | None]:
    """The timestamp of the first record at or after each offset. None where there is no record: the
    rest of the log is markers of transactions alone. Left out where none was read in time.
    """
    found: dict[TopicPartition, int | None] = {}
    if not offsets:
        return found
    rules = ConsumerRules(
        reset=Reset.EARLIEST, fetch=FetchRules(partition_bytes_max=PARTITION_BYTES)
    )
    deadline_ms = cluster.clock.monotonic_ms() + wait_ms_max
    async with Consumer(cluster, rules=rules) as consumer:
        await consumer.assign(offsets)
        for place, offset in offsets.items():
            consumer.seek(place, offset)
        ends = await consumer.end_offsets(offsets)
        left = set(offsets)
        while left and (left_ms := deadline_ms - cluster.clock.monotonic_ms()) > 0:
            for record in await consumer.poll(wait_ms=min(left_ms, 200)):
                place = TopicPartition(record.topic, record.partition)
                found.setdefault(place, record.timestamp_ms)
            positions = consumer.positions()
            done = [p for p in left if p in found or positions.get(p, 0) >= ends[p]]
            for place in done:
                found.setdefault(place, None)
            consumer.pause(done)
            left.difference_update(done)
    return found
