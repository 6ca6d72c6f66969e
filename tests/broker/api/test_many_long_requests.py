"""Many long answers at once are worked out a few at a time, first come, first served."""

import asyncio
from collections.abc import Awaitable
from typing import cast

from penstock.broker.api import fetch, list_offsets, metadata, write_txn_markers
from penstock.broker.request.api_table import AnyApi
from penstock.model.limit import ENTRIES_PER_TURN, LONG_ANSWERS_AT_ONCE
from penstock.wire.definition import Message
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.metadata import MetadataRequest
from rig.raw_producer import marker_request
from rig.services import Broker

TURNS = 4
PARTITIONS = TURNS * ENTRIES_PER_TURN
CLIENTS = 10 * LONG_ANSWERS_AT_ONCE
ALL_TOPICS = MetadataRequest(topics=None)
LONG_FETCH = FetchRequest(
    topics=[
        FetchTopic(topic="t", partitions=[FetchPartition(partition=i) for i in range(PARTITIONS)])
    ]
)
MANY_OFFSETS = ListOffsetsRequest(
    topics=[
        ListOffsetsTopic(
            name="t",
            partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)] * PARTITIONS,
        )
    ]
)


class Rounds:
    """Counts those of the loop, and notes in which one an answer was ready."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._count = 0
        self._counting = asyncio.create_task(self._go_round())

    async def _go_round(self) -> None:
        while True:
            self._count += 1
            await asyncio.sleep(0)

    def ask(self, api: AnyApi, request: Message, *, version: int) -> "asyncio.Task[int]":
        response = self._broker.send(api, request, version=version)
        assert not isinstance(response, Message), "answered without a pause"
        return asyncio.create_task(self._ready(cast(Awaitable[Message], response)))

    async def _ready(self, response: Awaitable[Message]) -> int:
        assert isinstance(await response, Message)
        return self._count

    def ask_all_topics(self, clients: int = CLIENTS) -> "list[asyncio.Task[int]]":
        return [self.ask(metadata.API, ALL_TOPICS, version=12) for _ in range(clients)]

    def end(self) -> None:
        self._counting.cancel()


def test_the_first_are_answered_long_before_the_last(broker: Broker) -> None:
    async def scenario() -> list[int]:
        rounds = Rounds(broker)
        ready = await asyncio.gather(*rounds.ask_all_topics())
        rounds.end()
        return ready

    broker.create_topic("t", PARTITIONS)
    ready = asyncio.run(scenario())
    assert ready == sorted(ready)
    assert all(
        later - earlier >= TURNS - 1
        for earlier, later in zip(ready, ready[LONG_ANSWERS_AT_ONCE:], strict=False)
    ), ready


def test_short_answers_do_not_wait_for_long_ones(broker: Broker) -> None:
    async def scenario() -> None:
        rounds = Rounds(broker)
        asked = rounds.ask_all_topics()
        await asyncio.sleep(0)
        few = MetadataRequest(topics=[])
        assert isinstance(broker.send(metadata.API, few, version=12), Message)
        assert not any(one.done() for one in asked)
        await asyncio.gather(*asked)
        rounds.end()

    broker.create_topic("t", PARTITIONS)
    asyncio.run(scenario())


def test_markers_and_fetches_do_not_wait_for_other_long_answers(broker: Broker) -> None:
    async def scenario() -> None:
        rounds = Rounds(broker)
        asked = rounds.ask_all_topics()
        markers = marker_request(7, 0, ("t", range(PARTITIONS)))
        marked = rounds.ask(write_txn_markers.API, markers, version=1)
        fetched = rounds.ask(fetch.API, LONG_FETCH, version=11)
        late = rounds.ask(list_offsets.API, MANY_OFFSETS, version=4)
        ready = await asyncio.gather(*asked, late)
        half = ready[CLIENTS // 2]
        assert await marked < half
        assert await fetched < half
        assert ready[-1] >= max(ready[:-1])
        rounds.end()

    broker.create_topic("t", PARTITIONS)
    asyncio.run(scenario())


def test_long_fetches_are_read_a_few_at_a_time(broker: Broker) -> None:
    async def scenario() -> list[int]:
        rounds = Rounds(broker)
        ready = await asyncio.gather(
            *(rounds.ask(fetch.API, LONG_FETCH, version=11) for _ in range(CLIENTS))
        )
        rounds.end()
        return ready

    broker.create_topic("t", PARTITIONS)
    ready = asyncio.run(scenario())
    assert ready == sorted(ready)
    assert ready[-1] - ready[0] >= (CLIENTS // LONG_ANSWERS_AT_ONCE - 1) * (TURNS - 1), ready


def test_answers_that_nobody_waits_for_any_more_give_their_places_up(broker: Broker) -> None:
    async def scenario() -> None:
        rounds = Rounds(broker)
        asked = rounds.ask_all_topics() + [
            rounds.ask(fetch.API, LONG_FETCH, version=11) for _ in range(CLIENTS)
        ]
        for _ in range(3):
            await asyncio.sleep(0)  # the first have their places, the others wait for one
        for one in asked:
            one.cancel()
        await asyncio.wait(asked)
        assert all(one.cancelled() for one in asked)
        after = [*rounds.ask_all_topics(1), rounds.ask(fetch.API, LONG_FETCH, version=11)]
        await asyncio.wait_for(asyncio.gather(*after), 50)
        rounds.end()

    broker.create_topic("t", PARTITIONS)
    asyncio.run(scenario())
    assert not broker.partition("t").observers
