"""`penstock consume --tail N`: the last records of some partitions together, by their time.

Offsets are no count of records: a log has gaps where it was compacted, where transactions ended
and where they were aborted. So each partition is read backwards in windows of growing size, until
N records are found or its beginning is reached.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from penstock.client.consume.consumer import Consumer
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

TAIL_MAX = 100_000  # records that are held at once, of each partition
RECORDS_AT_ONCE = 2_000
WAIT_MS = 1_000
GROWTH = 4  # each window is so many times the one after it

Offsets = Mapping[TopicPartition, Offset]


async def read_tail(consumer: Consumer, count: int, ends: Offsets) -> list[ConsumedRecord]:
    """The last `count` records before the ends, in the order of `merged`. Moves the consumer."""
    starts = await consumer.beginning_offsets(ends)
    found: dict[TopicPartition, list[ConsumedRecord]] = {place: [] for place in ends}
    window = dict(ends)  # where the records that were read begin
    size = count
    while wanted := [p for p in ends if len(found[p]) < count and window[p] > starts[p]]:
        until = {place: window[place] for place in wanted}
        for place in wanted:
            window[place] = Offset(max(starts[place], window[place] - size))
        begin = {place: window[place] for place in wanted}
        for place, records in (await _read(consumer, begin, until, count)).items():
            found[place] = [*records, *found[place]][-count:]
        size *= GROWTH
    return list(merged(found.values()))[-count:]


def merged(partitions: Iterable[list[ConsumedRecord]]) -> Iterator[ConsumedRecord]:
    """By timestamp, as far as the order within each partition allows, which comes first."""
    timed = heapq.merge(*map(_timed, partitions), key=lambda one: one[0])
    return (record for _, record in timed)


def _timed(records: list[ConsumedRecord]) -> Iterator[tuple[int, ConsumedRecord]]:
    """Producers set timestamps, so they may go back; the highest so far never does."""
    highest_ms = -1
    for record in records:
        highest_ms = max(highest_ms, record.timestamp_ms)
        yield highest_ms, record


async def _read(
    consumer: Consumer, begin: Offsets, until: Offsets, count: int
) -> dict[TopicPartition, deque[ConsumedRecord]]:
    """The last `count` records of each of these windows."""
    found: dict[TopicPartition, deque[ConsumedRecord]] = {p: deque(maxlen=count) for p in begin}
    consumer.pause([place for place in consumer.assignment if place not in begin])
    for place, offset in begin.items():
        consumer.seek(place, offset)
    consumer.resume(begin)
    reading = set(begin)
    while reading:
        for record in await consumer.poll(wait_ms=WAIT_MS, records_max=RECORDS_AT_ONCE):
            place = TopicPartition(record.topic, record.partition)
            if record.offset < until[place]:
                found[place].append(record)
        positions = consumer.positions()
        done = [place for place in reading if positions.get(place, Offset(0)) >= until[place]]
        reading.difference_update(done)
        consumer.pause(done)
    return found
