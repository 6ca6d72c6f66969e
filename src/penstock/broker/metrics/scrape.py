"""One scrape: asks every source, in turns with the rest of the node, and has the text made.

Scrapes take place one after the other. The text is made on a thread, so that the loop is stopped
for a moment at most.
"""

import asyncio
from collections.abc import Iterable

from penstock.broker.metrics.exposition import Exposition, Page
from penstock.metrics.family import Sample, Source
from penstock.model.limit import METRICS_STEPS_PER_TURN


class Scrape:
    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)
        self._exposition = Exposition(
            family for source in self._sources for family in source.families
        )
        self._one_at_a_time = asyncio.Lock()

    async def page(self, accept: str) -> Page:
        async with self._one_at_a_time:
            samples = await self._gather()
            return await asyncio.to_thread(self._exposition.page, samples, accept)

    async def _gather(self) -> list[Sample]:
        gathered: list[Sample] = []
        steps = 0
        for source in self._sources:
            for sample in source.samples():
                if sample is not None:
                    gathered.append(sample)
                steps += 1
                if steps % METRICS_STEPS_PER_TURN == 0:
                    await asyncio.sleep(0)
        return gathered
