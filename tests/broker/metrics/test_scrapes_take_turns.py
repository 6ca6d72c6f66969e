"""A scrape of many samples lets others have their turn."""

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.broker.metrics.gathering import gathered
from penstock.broker.metrics.scrape import Scrape
from penstock.metrics.family import Source, Steps, gauge
from penstock.model.limit import METRICS_STEPS_PER_TURN
from penstock.world.clock import RealClock
from rig.held_clock import HeldClock

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


async def turns_of_others(source: Source, clock: HeldClock) -> int:
    """How often another task had its turn while the samples were gathered."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.ensure_future(other())
    await gathered([source], clock)
    task.cancel()
    return turns


@pytest.fixture
def clock() -> HeldClock:
    held = HeldClock(RealClock())
    held.hold()
    return held


@pytest.mark.parametrize("steps", [sizes, counted])
def test_others_have_a_turn_after_so_many_steps_with_samples_and_without(
    clock: HeldClock, steps: Callable[[], Steps]
) -> None:
    turns = asyncio.run(turns_of_others(Source((SIZE, COUNT), steps), clock))
    assert abs(turns - PARTITIONS // METRICS_STEPS_PER_TURN) <= 1


def test_others_have_a_turn_after_each_step_that_takes_long(clock: HeldClock) -> None:
    def slow() -> Steps:
        for _ in range(20):
            clock.hold(later_ms=1)
            yield None

    turns = asyncio.run(turns_of_others(Source((), slow), clock))
    assert abs(turns - 20) <= 1


def test_all_samples_of_all_sources_are_told() -> None:
    scrape = Scrape([Source((SIZE,), sizes), Source((COUNT,), counted)], RealClock())
    text = asyncio.run(scrape.page("")).text.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["size"].samples] == list(range(PARTITIONS))
    assert [sample.value for sample in families["count"].samples] == [PARTITIONS]
