"""Acks that do not come are given up in time, whatever else is waited for."""

import asyncio

from penstock.broker.partitions.ack_deadlines import AckDeadlines
from penstock.model.error import ErrorCode
from penstock.model.offset import Offset
from penstock.replication.ack_queue import AckQueue
from penstock.world.clock import RealClock

PATIENCE_SECONDS = 30


class Told:
    """Where an outcome is awaited."""

    def __init__(self) -> None:
        self.code: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def done(self, code: ErrorCode) -> None:
        self.code.set_result(code)


def test_an_ack_is_given_up_when_nothing_else_is_waited_for() -> None:
    async def scenario() -> None:
        clock = RealClock()
        deadlines = AckDeadlines(clock)
        keeper = asyncio.create_task(deadlines.keep())
        await asyncio.sleep(0)  # it waits, for nothing yet
        assert await _outcome(deadlines, clock) is ErrorCode.REQUEST_TIMED_OUT
        keeper.cancel()

    asyncio.run(scenario())


def test_an_ack_is_given_up_before_those_that_have_more_time() -> None:
    async def scenario() -> None:
        clock = RealClock()
        deadlines = AckDeadlines(clock)
        keeper = asyncio.create_task(deadlines.keep())
        patient = AckQueue()
        later_ms = clock.monotonic_ms() + 3_600_000
        patient.add(Offset(1), Told(), later_ms)
        deadlines.note(patient, later_ms)
        await asyncio.sleep(0)  # it waits for that one
        assert await _outcome(deadlines, clock) is ErrorCode.REQUEST_TIMED_OUT
        assert len(patient) == 1
        keeper.cancel()

    asyncio.run(scenario())


async def _outcome(deadlines: AckDeadlines, clock: RealClock) -> ErrorCode:
    """What an ack is told that has a moment to come, and does not."""
    queue = AckQueue()
    told = Told()
    deadline_ms = clock.monotonic_ms() + 20
    queue.add(Offset(1), told, deadline_ms)
    deadlines.note(queue, deadline_ms)
    return await asyncio.wait_for(told.code, PATIENCE_SECONDS)
