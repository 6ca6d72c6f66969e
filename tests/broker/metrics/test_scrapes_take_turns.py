"""A scrape of many samples lets others have their turn."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from penstock.broker.metrics.scrape import Scrape
from penstock.metrics.family import Source, Steps, gauge
from penstock.model.limit import METRICS_STEPS_PER_TURN

SIZE = gauge("size", "Bytes.", "partition")
COUNT = gauge("count", "How many.")
PARTITIONS = 4_000


def sizes() -> Steps:
    for index in range(PARTITIONS):
        yield SIZE.sample(index, str(index))


def counted() -> Steps:
    for _ in range(PARTITIONS):
        yield None
    yield COUNT.sample(PARTITIONS)


async def scraped() -> tuple[str, int]:
    """The text, and how often another task had its turn meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.ensure_future(other())
    scrape = Scrape([Source((SIZE,), sizes), Source((COUNT,), counted)])
    samples = await scrape._gather()
    turns_of_gathering = turns
    page = await scrape.page("")
    task.cancel()
    assert len(samples) == PARTITIONS + 1
    return page.text.decode(), turns_of_gathering


def test_others_have_a_turn_after_so_many_steps_with_samples_and_without() -> None:
    text, turns = asyncio.run(scraped())
    assert turns >= 2 * PARTITIONS // METRICS_STEPS_PER_TURN - 1
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["size"].samples] == list(range(PARTITIONS))
    assert [sample.value for sample in families["count"].samples] == [PARTITIONS]
