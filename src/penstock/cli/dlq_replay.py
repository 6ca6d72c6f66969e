"""Letters back to where they came from, each once.

The transactional id is the group's name, so there is one replay of a topic at a time: whoever
starts another takes over from the first. What it reads is committed, and what it writes is one
transaction at a time: letters, their receipts, and the group's offsets
(`penstock.spark.dead_letter_replay` decides). So a killed replay leaves nothing half done. At the
end the offsets pass the receipts, so that the group does not lag behind by them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from penstock.cli.dlq_read import (
    Choice,
    Ends,
    beginnings,
    ends_of,
    place_of,
    places_of,
    read_all,
    states_of,
)
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.group_offsets import Committed
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.dead_letter_headers import Letter, letter_of, receipt_headers, replayed_headers
from penstock.spark.dead_letter_replay import PartitionReplay, Settled

NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a user wants."""

    topic: str
    to: str | None
    choice: Choice
    limit: int | None
    dry_run: bool
    group: str


@dataclass(slots=True)
class Replayed:
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # by target and reason
    left: int = 0  # not chosen
    without_source: int = 0  # chosen, but nobody knows where they came from
    gone: Counter[str] = field(default_factory=Counter)  # chosen, by topics that are not there

    @property
    def total(self) -> int:
        return self.counts.total()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    record: ConsumedRecord
    topic: str
    partition: int | None  # None: by its key
    timestamp_ms: int


class Replay:
    """One run: it looks at each letter once, in order within its partition."""

    def __init__(self, order: Order, states: Mapping[TopicPartition, PartitionReplay]) -> None:
        self.done = Replayed()
        self._order = order
        self._states = states
        self._is_there: dict[str, bool] = {}  # topics that letters came from
        self._noted = {place: state.done_until for place, state in states.items()}

    @property
    def is_full(self) -> bool:
        return self._order.limit is not None and self.done.total >= self._order.limit

    def unknown(self, records: Iterable[ConsumedRecord]) -> list[str]:
        """Topics that the records may go to and that nobody has looked for."""
        letters = (letter_of(record.headers) for record in records)
        targets = (self._target(one) for one in letters if isinstance(one, Letter))
        return [
            one for one in dict.fromkeys(targets) if one is not None and one not in self._is_there
        ]

    def noted(self) -> Mapping[TopicPartition, Offset]:
        """The group's offsets as they were last settled."""
        return self._noted

    def looked_for(self, topic: str, *, is_there: bool) -> None:
        self._is_there[topic] = is_there

    def chosen(self, records: Iterable[ConsumedRecord]) -> list[Outgoing]:
        """Those of the records that are to be written, until there are enough."""
        outgoing = []
        for record in records:
            if self.is_full:
                break
            letter, state = letter_of(record.headers), self._states[place_of(record)]
            if not isinstance(letter, Letter) or state.is_done(record.offset):
                continue
            target = self._target(letter)
            if not self._order.choice.takes(letter):
                state.left(record.offset)
                self.done.left += 1
                continue
            if target is None:
                state.left(record.offset)
                self.done.without_source += 1
                continue
            if not self._is_there[target]:
                state.left(record.offset)
                self.done.gone[target] += 1
                continue
            state.replayed(record.offset)
            self.done.counts[target, letter.reason or ""] += 1
            same_place = letter.partition if target == letter.topic else None
            told_ms = letter.timestamp_ms
            outgoing.append(
                Outgoing(
                    record=record,
                    topic=target,
                    partition=same_place,
                    timestamp_ms=record.timestamp_ms if told_ms is None else told_ms,
                )
            )
        return outgoing

    def leave_new(self, records: Iterable[ConsumedRecord]) -> None:
        """Letters that came while the replay ran wait for the next one."""
        for record in records:
            if isinstance(letter_of(record.headers), Letter):
                self._states[place_of(record)].left(record.offset)

    def reached(self, ends: Mapping[TopicPartition, Offset]) -> None:
        for place, end in ends.items():
            self._states[place].reached(end)

    def settle(self) -> dict[TopicPartition, Settled]:
        """What is to be noted of the partitions in which something has changed."""
        settled = {place: state.settle() for place, state in self._states.items()}
        changed = {
            place: one
            for place, one in settled.items()
            if one.receipt or one.offset != self._noted[place]
        }
        self._noted |= {place: one.offset for place, one in changed.items()}
        return changed

    def _target(self, letter: Letter) -> str | None:
        return self._order.to or letter.topic


async def replay_letters(
    cluster: Cluster, order: Order, progress: Callable[[int], None]
) -> Replayed:
    """`told` hears how many are written so far."""
    places = await places_of(cluster, order.topic)
    if order.to is not None:
        await cluster.need((order.to,))  # a wrong name is told, before anything is done
    if order.dry_run:
        ends = await ends_of(cluster, places)
        states = await states_of(cluster, order.group, ends, stable=False)
        replay = Replay(order, states)
        async with aclosing(read_all(cluster, beginnings(states), ends)) as reading:
            async for records in reading:
                await _look_for_topics(cluster, replay, records)
                replay.chosen(records)
        return replay.done
    async with TransactionalProducer(cluster, order.group) as producer:
        # Only now is nobody else at it: what the predecessor wrote is either seen, or void.
        ends = await ends_of(cluster, places)
        states = await states_of(cluster, order.group, ends, stable=True)
        replay = Replay(order, states)
        async with aclosing(read_all(cluster, beginnings(states), ends)) as reading:
            async for records in reading:
                await _look_for_topics(cluster, replay, records)
                await _write(producer, order, replay.chosen(records), replay.settle())
                progress(replay.done.total)
                if replay.is_full:
                    return replay.done
        replay.reached(ends)
        await _write(producer, order, [], replay.settle())
        if replay.done.total:
            await _pass_receipts(producer, order, replay, ends)
    return replay.done


async def _pass_receipts(
    producer: TransactionalProducer, order: Order, replay: Replay, read_until: Ends
) -> None:
    """Moves the group's offsets to the ends, or to letters that came meanwhile."""
    async with producer.transaction():
        # A commit is answered before all partitions have its marker, and readers see receipts with
        # the marker only. The first request of the next transaction waits for the markers.
        await producer.send_offsets(order.group, _offsets(replay.noted()))
        ends = await ends_of(producer.cluster, read_until)
        async with aclosing(read_all(producer.cluster, read_until, ends)) as reading:
            async for records in reading:
                replay.leave_new(records)
        replay.reached(ends)
        settled = {place: one.offset for place, one in replay.settle().items()}
        if settled:
            await producer.send_offsets(order.group, _offsets(settled))


def _offsets(offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Committed]:
    return {place: Committed(offset=offset) for place, offset in offsets.items()}


async def _look_for_topics(
    cluster: Cluster, replay: Replay, records: Iterable[ConsumedRecord]
) -> None:
    for topic in replay.unknown(records):
        try:
            await cluster.need((topic,))
        except Refused as refused:
            if refused.code not in NO_TOPIC:
                raise
            replay.looked_for(topic, is_there=False)
        else:
            replay.looked_for(topic, is_there=True)


async def _write(
    producer: TransactionalProducer,
    order: Order,
    outgoing: list[Outgoing],
    settled: Mapping[TopicPartition, Settled],
) -> None:
    """All of it, or, after an error, nothing."""
    if not settled:
        assert not outgoing, "whoever writes a letter has something to note"
        return
    # Brokers refuse what is of the future: one such letter would hold up all others.
    now_ms = producer.cluster.clock.now_ms()
    async with producer.transaction():
        for one in outgoing:
            record = one.record
            view = await producer.cluster.need((one.topic,))
            there = one.partition in range(len(view.topics[one.topic].partitions))
            await producer.send(
                one.topic,
                record.value,
                key=record.key,
                headers=replayed_headers(record.headers, now_ms=now_ms),
                timestamp_ms=min(one.timestamp_ms, now_ms),
                partition=one.partition if there else None,
            )
        for place, one_settled in settled.items():
            if one_settled.receipt:
                headers = receipt_headers(one_settled.receipt)
                await producer.send(place.topic, None, headers=headers, partition=place.partition)
        offsets = _offsets({place: one.offset for place, one in settled.items()})
        await producer.send_offsets(order.group, offsets)
