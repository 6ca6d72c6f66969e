"""The letters of a dead-letter topic, in order within each partition, and which of them wait.

A topic is read twice: receipts, which tell what was replayed, lie behind the letters they are of.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.cluster import Cluster
from penstock.client.consumer import Consumer, ConsumerRules
from penstock.client.coordinators import Coordinators
from penstock.client.cursor import Reset
from penstock.client.fetch_request import FetchRules
from penstock.client.fetched import ConsumedRecord
from penstock.client.group_offsets import committed_offsets
from penstock.client.isolation import Isolation
from penstock.client.offsets import When, offsets_of
from penstock.client.trouble import Refused
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.letter import Letter, letter_of
from penstock.spark.replaying import PartitionReplay

READING = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(isolation=Isolation.READ_COMMITTED))
RECORDS_AT_ONCE = 2_000
WAIT_MS = 1_000

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
    return await offsets_of(cluster, places, When.LATEST, isolation=READING.fetch.isolation)


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
    """The committed records between the two."""
    async with Consumer(cluster, rules=READING) as consumer:
        await consumer.assign(ends)
        starts = await consumer.beginning_offsets(ends)
        for place in ends:
            consumer.seek(place, max(begin[place], starts[place]))
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            records = await consumer.poll(wait_ms=WAIT_MS, records_max=RECORDS_AT_ONCE)
            yield [one for one in records if one.offset < ends[place_of(one)]]


def beginnings(states: Mapping[TopicPartition, PartitionReplay]) -> dict[TopicPartition, Offset]:
    return {place: state.done_until for place, state in states.items()}


def place_of(record: ConsumedRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
