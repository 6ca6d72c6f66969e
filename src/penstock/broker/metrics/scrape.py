"""One scrape: asks every source, in turns with the rest of the node, and has the text made.

Scrapes take place one after the other. The text is made on a thread, so that the loop is stopped
for a moment at most.
"""

import asyncio
from collections.abc import Iterable

from penstock.broker.metrics.exposition import Exposition, Page
from penstock.broker.metrics.gathering import gathered
from penstock.metrics.family import Source
from penstock.world.ports import Clock


class Scrape:
    def __init__(self, sources: Iterable[Source], clock: Clock) -> None:
        self._sources = tuple(sources)
        self._clock = clock
        self._exposition = Exposition(
            family for source in self._sources for family in source.families
        )
        self._one_at_a_time = asyncio.Lock()

    async def page(self, accept: str) -> Page:
        async with self._one_at_a_time:
            samples = await gathered(self._sources, self._clock)
            return await asyncio.to_thread(self._exposition.page, samples, accept)
