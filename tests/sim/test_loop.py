"""Time on the simulated loop is a number that jumps, and order is the order of asking."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from penstock.sim.errors import Deadlock, Livelock
from penstock.sim.loop import SimLoop

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> tuple[SimLoop, Result]:
    loop = SimLoop()  # type: ignore[abstract]
    try:
        return loop, loop.run_until_complete(work)
    finally:
        loop.close()


def test_a_year_of_sleep_takes_no_time() -> None:
    loop, _ = run(asyncio.sleep(365 * 86_400))
    assert loop.time() == 365 * 86_400


def test_timers_of_one_moment_fire_in_the_order_they_were_set() -> None:
    async def work() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_later(1, fired.append, number)
        await asyncio.sleep(1)
        return fired

    assert run(work())[1] == list(range(20))


def test_a_timeout_of_asyncio_keeps_virtual_time() -> None:
    async def work() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(work())[1] == 2.5


def test_a_wait_for_nothing_is_a_deadlock_that_names_who_waits() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        waiting = loop.create_task(asyncio.Event().wait(), name="for ever")
        await waiting

    with pytest.raises(Deadlock, match="for ever"):
        run(work())


def test_work_that_never_lets_time_pass_is_a_livelock() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(Livelock):
        run(work())


def test_there_are_no_threads() -> None:
    async def work() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(NotImplementedError):
        run(work())


def test_a_task_belongs_to_whoever_started_its_starter() -> None:
    async def work() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)

        async def grandparent() -> None:
            child = loop.create_task(asyncio.sleep(1), name="child")
            await child

        loop.start_for("node 1", grandparent(), name="parent")
        await asyncio.sleep(0.5)
        return [task.get_name() for task in loop.tasks_of("node 1")]

    assert run(work())[1] == ["parent", "child"]
