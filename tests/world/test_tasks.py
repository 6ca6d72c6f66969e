"""The ordered task group."""

import asyncio

import pytest

from penstock.world.tasks import TaskGroup


def test_leaving_waits_for_every_task() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    async def scenario() -> None:
        async with TaskGroup() as group:
            for number in range(3):
                group.start(work(number))

    asyncio.run(scenario())
    assert done == [0, 1, 2]


def test_cancel_reaches_tasks_in_order_of_creation() -> None:
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async def scenario() -> None:
        async with TaskGroup() as group:
            for number in range(100):
                group.start(wait(number))
            await asyncio.sleep(0)
            group.cancel()

    asyncio.run(scenario())
    assert cancelled == list(range(100))


def test_first_failure_cancels_the_rest_and_is_raised_as_it_is() -> None:
    cancelled: list[str] = []

    async def fail() -> None:
        raise ValueError("first")

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("waiter")

    async def scenario() -> None:
        async with TaskGroup() as group:
            group.start(wait())
            group.start(fail())
            await asyncio.Event().wait()

    with pytest.raises(ValueError, match="first"):
        asyncio.run(scenario())
    assert cancelled == ["waiter"]


async def wait_and_start_another(group: TaskGroup) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        group.start(asyncio.Event().wait())


def test_what_starts_after_a_failure_is_cancelled_too() -> None:
    async def fail() -> None:
        raise ValueError("first")

    async def scenario() -> None:
        async with TaskGroup() as group:
            group.start(wait_and_start_another(group))
            group.start(fail())
            await asyncio.Event().wait()

    with pytest.raises(ValueError, match="first"):
        asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_starts_after_the_owner_was_cancelled_is_cancelled_too() -> None:
    async def owner() -> None:
        async with TaskGroup() as group:
            group.start(wait_and_start_another(group))
            await asyncio.Event().wait()

    async def scenario() -> None:
        task = asyncio.create_task(owner())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=10)
        assert done, "it waits for what was started last"
        assert task.cancelled()

    asyncio.run(scenario())


def test_what_starts_after_the_group_was_cancelled_is_cancelled_too() -> None:
    async def scenario() -> bool:
        async with TaskGroup() as group:
            group.start(wait_and_start_another(group))
            await asyncio.sleep(0)
            group.cancel()
        return True

    assert asyncio.run(asyncio.wait_for(scenario(), 60)), "it waits for what was started last"


def test_failure_while_leaving_is_raised() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("late")

    async def scenario() -> None:
        async with TaskGroup() as group:
            group.start(fail())

    with pytest.raises(ValueError, match="late"):
        asyncio.run(scenario())


def test_owner_goes_on_after_a_failure_it_caught() -> None:
    async def fail() -> None:
        raise ValueError

    async def scenario() -> int:
        with pytest.raises(ValueError):
            async with TaskGroup() as group:
                group.start(fail())
                await asyncio.Event().wait()
        await asyncio.sleep(0)  # would raise if the group's interruption were still pending
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(scenario()) == 0


def test_failure_in_the_moment_of_leaving_leaves_no_cancellation_behind() -> None:
    async def scenario() -> str:
        woken = asyncio.get_running_loop().create_future()

        async def wake_and_fail() -> None:
            woken.set_result(None)
            raise ValueError

        with pytest.raises(ValueError):
            async with TaskGroup() as group:
                group.start(wake_and_fail())
                await woken
        await asyncio.sleep(0)
        return "undisturbed"

    assert asyncio.run(scenario()) == "undisturbed"


def test_cancelling_the_owner_cancels_the_tasks_and_passes_through() -> None:
    cancelled: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("waiter")

    async def owner() -> None:
        async with TaskGroup() as group:
            group.start(wait())

    async def scenario() -> None:
        task = asyncio.create_task(owner())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert cancelled == ["waiter"]
