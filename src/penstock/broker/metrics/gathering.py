"""All samples of some sources, gathered in turns with the rest of the node.

A step may read from a file, so a turn ends by the time that it took, or after so many steps.
"""

import asyncio
from collections.abc import Iterable

from penstock.metrics.family import Sample, Source
from penstock.model.limit import METRICS_STEPS_PER_TURN, METRICS_TURN_US
from penstock.world.ports import Clock


async def gathered(sources: Iterable[Source], clock: Clock) -> list[Sample]:
    found: list[Sample] = []
    steps = 0
    until_us = clock.monotonic_us() + METRICS_TURN_US
    for source in sources:
        for sample in source.samples():
            if sample is not None:
                found.append(sample)
            steps += 1
            if steps == METRICS_STEPS_PER_TURN or clock.monotonic_us() >= until_us:
                await asyncio.sleep(0)
                steps = 0
                until_us = clock.monotonic_us() + METRICS_TURN_US
    return found
