"""Which keys heat a partition: a sample of its newest records."""

from collections.abc import Mapping, Sequence

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import KIB
from penstock.model.offset import Offset

READ_MS_MAX = 5_000
PARTITION_BYTES = 256 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShare:
    key: bytes | None
    records: int
    value_bytes: int  # with keys


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySample:
    records: int
    value_bytes: int
    keys: tuple[KeyShare, ...]  # the heaviest first


def heaviest(records: Sequence[tuple[bytes | None, int]], *, keys_max: int) -> KeySample:
    """`records` are keys, with the bytes of each record."""
    counts: dict[bytes | None, list[int]] = {}
    for key, size_bytes in records:
        count = counts.setdefault(key, [0, 0])
        count[0] += 1
        count[1] += size_bytes
    shares = [
        KeyShare(key=key, records=count, value_bytes=size_bytes)
        for key, (count, size_bytes) in counts.items()
    ]
    shares.sort(key=lambda share: (-share.value_bytes, -share.records, share.key or b""))
    return KeySample(
        records=len(records),
        value_bytes=sum(size_bytes for _, size_bytes in records),
        keys=tuple(shares[:keys_max]),
    )


async def sample_keys(
    cluster: Cluster, places: Sequence[TopicPartition], *, records_max: int, keys_max: int
) -> dict[TopicPartition, KeySample]:
    """Of the last records of each partition, as far as they can be read within some seconds."""
    if not places:
        return {}
    starts = await offsets_of(cluster, places, When.EARLIEST)
    ends = await offsets_of(cluster, places, When.LATEST)
    begin = {place: max(starts[place], Offset(ends[place] - records_max)) for place in places}
    found = await _read(cluster, begin, ends)
    return {place: heaviest(found[place], keys_max=keys_max) for place in places}


async def _read(
    cluster: Cluster,
    begin: Mapping[TopicPartition, Offset],
    ends: Mapping[TopicPartition, Offset],
) -> dict[TopicPartition, list[tuple[bytes | None, int]]]:
    rules = ConsumerRules(
        reset=Reset.EARLIEST, fetch=FetchRules(partition_bytes_max=PARTITION_BYTES)
    )
    found: dict[TopicPartition, list[tuple[bytes | None, int]]] = {place: [] for place in begin}
    deadline_ms = cluster.clock.monotonic_ms() + READ_MS_MAX
    async with Consumer(cluster, rules=rules) as consumer:
        await consumer.assign(begin)
        for place, offset in begin.items():
            consumer.seek(place, offset)
        left = {place for place in begin if begin[place] < ends[place]}
        consumer.pause([place for place in begin if place not in left])
        while left and (left_ms := deadline_ms - cluster.clock.monotonic_ms()) > 0:
            for record in await consumer.poll(wait_ms=min(left_ms, 200)):
                place = TopicPartition(record.topic, record.partition)
                if record.offset < ends[place]:
                    size_bytes = len(record.key or b"") + len(record.value or b"")
                    found[place].append((record.key, size_bytes))
            positions = consumer.positions()
            done = [place for place in left if positions.get(place, 0) >= ends[place]]
            consumer.pause(done)
            left.difference_update(done)
    return found
