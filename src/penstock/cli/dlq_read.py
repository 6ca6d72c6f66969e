"""The letters of a dead-letter topic, in order within each partition, and which of them wait.

A topic is read twice: receipts, which tell what was replayed, lie behind the letters they are of.
A partition that gives nothing for PATIENCE_MS ends the reading: TimedOut.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.group_offsets import committed_offsets
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused, TimedOut
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.dead_letter_headers import Letter, letter_of
from penstock.spark.dead_letter_replay import PartitionReplay

READING = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(isolation=Isolation.READ_COMMITTED))
RECORDS_AT_ONCE = 2_000
WAIT_MS = 500
PATIENCE_MS = 15_000  # a new leader is found sooner than that, where there is one to be found

Ends = dict[TopicPartition, Offset]  # how far each partition may be read
NOTHING_DONE = Offset(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    reasons: tuple[str, ...] = ()  # any of them, or all letters
    with_replayed: bool = False

    def takes(self, letter: Letter) -> bool:
        return not self.reasons or any(text in (letter.reason or "") for text in self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLetter:
    record: ConsumedRecord
    letter: Letter
    replayed: bool


@dataclass(slots=True)
class Found:
    letters: list[FoundLetter] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # by reason


async def found_letters(
    cluster: Cluster, topic: str, group: str, choice: Choice, limit: int
) -> Found:
    """Up to `limit` letters, and how many of each reason there are."""
    ends = await ends_of(cluster, await places_of(cluster, topic))
    states = await states_of(cluster, group, ends, stable=False)
    found = Found()
    begin = dict.fromkeys(ends, NOTHING_DONE) if choice.with_replayed else beginnings(states)
    async for records in read_all(cluster, begin, ends):
        for record in records:
            letter = letter_of(record.headers)
            if not isinstance(letter, Letter) or not choice.takes(letter):
                continue
            replayed = states[place_of(record)].is_done(record.offset)
            if replayed and not choice.with_replayed:
                continue
            found.counts[letter.reason or ""] += 1
            if len(found.letters) < limit:
                found.letters.append(FoundLetter(record=record, letter=letter, replayed=replayed))
    return found


async def places_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    view = await cluster.need((topic,))
    return [TopicPartition(topic, one.index) for one in view.topics[topic].partitions]


async def ends_of(cluster: Cluster, places: Iterable[TopicPartition]) -> Ends:
    isolation = READING.fetch.isolation
    return await offsets_of(
        cluster, places, When.LATEST, isolation=isolation, timeout_ms=PATIENCE_MS
    )


async def states_of(
    cluster: Cluster, group: str, ends: Ends, *, stable: bool
) -> dict[TopicPartition, PartitionReplay]:
    """How far the group has got, by its offsets and by the receipts behind them."""
    committed = await committed_offsets(Coordinators(cluster), group, ends, stable=stable)
    begin = {}
    for place in ends:
        one = committed.get(place)
        if isinstance(one, Refused):
            raise one
        begin[place] = NOTHING_DONE if one is None else one.offset
    receipts: dict[TopicPartition, list[range]] = {place: [] for place in ends}
    async for records in read_all(cluster, begin, ends):
        for record in records:
            noted = letter_of(record.headers)
            if not isinstance(noted, Letter):
                receipts[place_of(record)] += noted
    return {
        place: PartitionReplay(done_until=offset, receipts=tuple(receipts[place]))
        for place, offset in begin.items()
    }


async def read_all(
    cluster: Cluster, begin: Mapping[TopicPartition, Offset], ends: Ends
) -> AsyncGenerator[list[ConsumedRecord]]:
    """The committed records between the two; TimedOut when there is no getting to an end."""
    async with Consumer(cluster, rules=READING) as consumer:
        await consumer.assign(ends)
        starts = await offsets_of(cluster, ends, When.EARLIEST, timeout_ms=PATIENCE_MS)
        for place in ends:
            consumer.seek(place, max(begin[place], starts[place]))
        idle_ms = 0
        while behind := _behind(consumer.positions(), ends):
            if idle_ms >= PATIENCE_MS:
                place, position = next(iter(behind.items()))
                raise TimedOut(
                    f"{place}: nothing could be read at offset {position} for {PATIENCE_MS} ms,"
                    f" though its end was at {ends[place]}: has it no leader?"
                )
            records = await consumer.poll(wait_ms=WAIT_MS, records_max=RECORDS_AT_ONCE)
            stands_still = _behind(consumer.positions(), ends) == behind
            idle_ms = idle_ms + WAIT_MS if stands_still else 0
            yield [one for one in records if one.offset < ends[place_of(one)]]


def _behind(positions: Mapping[TopicPartition, Offset], ends: Ends) -> dict[TopicPartition, Offset]:
    """The partitions that are not read to their ends, and how far they are."""
    found = {place: positions.get(place, NOTHING_DONE) for place in ends}
    return {place: position for place, position in found.items() if position < ends[place]}


def beginnings(states: Mapping[TopicPartition, PartitionReplay]) -> dict[TopicPartition, Offset]:
    return {place: state.done_until for place, state in states.items()}


def place_of(record: ConsumedRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
