"""The reader of a simulated cluster: what it has seen, and where it was told that a log ends, must
stay so, whoever leads.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.offsets import When, list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.model.identity import TopicPartition
from penstock.records.errors import CorruptBatch
from penstock.sim.cluster.clients import Client
from penstock.sim.cluster.scenario import ORDERS
from penstock.sim.errors import Violation
from penstock.world.ports import World

READER_RULES = ConsumerRules(
    reset=Reset.EARLIEST, request_ms_max=6_000, fetch=FetchRules(wait_ms_max=2_500)
)
ENDS_EVERY_US = 700_000
ENDS_MS_MAX = 2_000


class ReaderClient(Client):
    """Reads one topic from its beginning, as records come: what it has seen must stay. Now and
    then it asks where the topic's partitions end.
    """

    _left_out: frozenset[TopicPartition] = frozenset()
    _asked_us = 0

    def __init__(self, *arguments: Any, **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self._known_ends: dict[TopicPartition, int] = {}  # at least

    async def main(self, world: World) -> None:
        async with self.connected(world) as cluster:
            while not self.ending:
                try:
                    async with Consumer(cluster, rules=READER_RULES) as consumer:
                        await self._read(consumer)
                except ClientError as error:
                    self.note(f"cannot read: {error}")
                    await asyncio.sleep(1)
                except CorruptBatch as error:
                    if not self.history.damaged:
                        raise Violation("readable", str(error)) from error
                    self.note(f"goes on without damaged partitions: {error}")
                    self._left_out = frozenset(self.history.damaged)

    async def _read(self, consumer: Consumer) -> None:
        view = await consumer.cluster.need([ORDERS])
        count = len(view.topics[ORDERS].partitions)
        places = {TopicPartition(ORDERS, index) for index in range(count)} - self._left_out
        await consumer.assign(sorted(places))
        while not self.ending:
            for record in await consumer.poll(wait_ms=2_000):
                assert record.value is not None
                place = TopicPartition(record.topic, record.partition)
                self.history.seen(place, record.offset, bytes(record.value))
                self._known_ends[place] = max(self._known_ends.get(place, 0), record.offset + 1)
            now_us = self.view.now_us()
            if self.scenario.replicas > 1 and now_us > self._asked_us + ENDS_EVERY_US:
                self._asked_us = now_us
                await self._ask_for_ends(consumer.cluster, places)

    async def _ask_for_ends(self, cluster: Cluster, places: Iterable[TopicPartition]) -> None:
        """No reader is told of an earlier end than before: this one knows the leader epochs, so
        that a leader of the past cannot answer it.
        """
        wanted = dict.fromkeys(sorted(places), When.LATEST)
        for place, told in (await list_offsets(cluster, wanted, timeout_ms=ENDS_MS_MAX)).items():
            if isinstance(told, Refused) or place in self.history.may_have_lost:
                continue
            assert told.offset is not None
            known = self._known_ends.get(place, 0)
            if told.offset < known:
                raise Violation(
                    "watermark", f"{place} ends at {told.offset} for a reader that has been told of"
                    f" {known}",
                )  # fmt: skip
            self._known_ends[place] = told.offset
