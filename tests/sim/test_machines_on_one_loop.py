"""Machines share a loop, and each has its own pauses and its own time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.sim.clock import BEGIN_MS, SimClock
from penstock.sim.loop import SimLoop
from penstock.sim.pace import PPM, Pace


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop()  # type: ignore[abstract]


def run(loop: SimLoop, work: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def ticker(loop: SimLoop, ticks: list[int], *, every_s: float) -> Coroutine[Any, Any, None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(every_s)
            ticks.append(loop.now_us // 1000)

    return tick()


def test_a_paused_machine_runs_nothing_while_the_others_go_on(loop: SimLoop) -> None:
    stopped: list[int] = []
    running: list[int] = []

    async def work() -> None:
        loop.start_for("a 1", ticker(loop, stopped, every_s=1), name="tick", host="a")
        loop.start_for("b 1", ticker(loop, running, every_s=1), name="tick", host="b")
        await asyncio.sleep(2.5)
        loop.pause("a")
        await asyncio.sleep(4)
        loop.resume("a")
        await asyncio.sleep(1.6)

    run(loop, work())
    assert running == [1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000]
    assert stopped == [1000, 2000, 6500, 7500]


def test_timers_of_a_paused_machine_fire_late_and_all_at_once_in_their_order(loop: SimLoop) -> None:
    fired: list[tuple[str, int]] = []

    async def process() -> None:
        for name, delay_s in (("late", 3), ("early", 1), ("afterwards", 9)):
            loop.call_later(delay_s, lambda name=name: fired.append((name, loop.now_us)))
        await asyncio.sleep(3600)

    async def work() -> None:
        loop.start_for("a 1", process(), name="process", host="a")
        await asyncio.sleep(0.5)
        loop.pause("a")
        await asyncio.sleep(7)
        assert fired == []
        loop.resume("a")
        await asyncio.sleep(5)

    run(loop, work())
    assert fired == [("early", 7_500_000), ("late", 7_500_000), ("afterwards", 9_000_000)]


@pytest.mark.parametrize("timers_first", [True, False])
def test_late_timers_come_before_or_after_what_has_arrived(
    loop: SimLoop, timers_first: bool
) -> None:
    seen: list[str] = []
    arrival = asyncio.Event()

    async def process() -> None:
        loop.call_later(1, seen.append, "timer")
        await arrival.wait()
        seen.append("arrival")

    async def work() -> None:
        loop.start_for("a 1", process(), name="process", host="a")
        await asyncio.sleep(0.5)
        loop.pause("a")
        await asyncio.sleep(2)
        arrival.set()
        await asyncio.sleep(2)
        loop.resume("a", timers_first=timers_first)
        await asyncio.sleep(0.1)

    run(loop, work())
    assert seen == (["timer", "arrival"] if timers_first else ["arrival", "timer"])


def test_the_monotonic_clock_goes_on_during_a_pause(loop: SimLoop) -> None:
    clock = SimClock(loop)
    seen: list[int] = []

    async def process() -> None:
        before_ms = clock.monotonic_ms()
        await asyncio.sleep(1)
        seen.append(clock.monotonic_ms() - before_ms)

    async def work() -> None:
        loop.start_for("a 1", process(), name="process", host="a")
        await asyncio.sleep(0.5)
        loop.pause("a")
        await asyncio.sleep(30)
        loop.resume("a")
        await asyncio.sleep(0.1)

    run(loop, work())
    assert seen == [30_500]


def test_nothing_of_a_process_that_has_ended_is_called(loop: SimLoop) -> None:
    called: list[str] = []

    async def process(name: str) -> None:
        loop.call_later(1, called.append, name)

    async def work() -> None:
        loop.start_for("a 1", process("a 1"), name="process", host="a")
        loop.start_for("a 2", process("a 2"), name="process", host="a")
        await asyncio.sleep(0.5)
        loop.drop("a 1")
        await asyncio.sleep(2)

    run(loop, work())
    assert called == ["a 2"]


def test_a_fast_clock_makes_timers_early_and_its_machine_does_not_notice(loop: SimLoop) -> None:
    pace = Pace(offset_us=5_000_000, drift_ppm=100_000)
    clock = SimClock(loop, pace)
    loop.paces["a"] = pace
    seen: list[tuple[int, int, float]] = []

    async def process() -> None:
        began_ms, began_s = clock.monotonic_ms(), loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(11):
                await asyncio.Event().wait()
        seen.append((loop.now_us, clock.monotonic_ms() - began_ms, loop.time() - began_s))

    async def work() -> None:
        loop.start_for("a 1", process(), name="process", host="a")
        await asyncio.sleep(20)

    run(loop, work())
    assert seen == [(10_000_000, 11_000, 11.0)]
    assert clock.now_ms() == BEGIN_MS + 22_000


@pytest.mark.parametrize("drift_ppm", [-300_000, -7, 0, 3, 499, PPM])
def test_a_clock_has_reached_a_time_no_sooner_than_it_shows_it(drift_ppm: int) -> None:
    pace = Pace(offset_us=123_456_789, drift_ppm=drift_ppm)
    for shown_us in (pace.offset_us, pace.offset_us + 1, 10**9 + 17, 10**12 + 1):
        reached_us = pace.reached_us(shown_us)
        assert pace.shown_us(reached_us) >= shown_us
        assert reached_us <= 0 or pace.shown_us(reached_us - 1) < shown_us
