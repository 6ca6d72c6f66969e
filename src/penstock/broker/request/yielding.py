"""A long answer is worked out in turns, so that a request of many entries keeps nobody waiting.

A handler whose work grows with its request writes it as a generator: a bare `yield` after each
entry, the reply returned at the end. Few entries are answered at once, without a task; after
ENTRIES_PER_TURN of them the loop gets its turn. What the handler knew before a `yield` may be old
after it, as with `await`.

An answer that needs a second turn is a long one, and waits for a place among those that are worked
on: LONG_ANSWERS_AT_ONCE, first come, first served. With one turn each for all of them, a round of
the loop would take longer the more there are, their half-built replies would be held all at once,
and none would be ready before nearly all are: clients would give up and ask again. An answer that
has a place waits for nothing but its turns, so places always become free. Answers to other nodes
need none: no client holds them up.
"""

import asyncio
from collections.abc import Awaitable, Generator
from typing import TypeVar

from penstock.model.limit import ENTRIES_PER_TURN, LONG_ANSWERS_AT_ONCE

Reply = TypeVar("Reply")
Steps = Generator[None, None, Reply]


class LongAnswers(asyncio.Semaphore):
    """The places for long answers of one node."""

    def __init__(self) -> None:
        super().__init__(LONG_ANSWERS_AT_ONCE)


def by_turns(steps: Steps[Reply], places: LongAnswers | None) -> Reply | Awaitable[Reply]:
    """The reply, or what to wait for to have it. Without `places` for the request of a node."""
    try:
        _take_turn(steps)
    except StopIteration as finished:
        reply: Reply = finished.value
        return reply
    return _take_turns(steps) if places is None else _take_turns_in_place(steps, places)


async def go_on(steps: Steps[Reply], places: LongAnswers | None) -> Reply:
    """The same for who must wait anyway."""
    await asyncio.sleep(0)
    try:
        _take_turn(steps)
    except StopIteration as finished:
        reply: Reply = finished.value
        return reply
    if places is None:
        return await _take_turns(steps)
    return await _take_turns_in_place(steps, places)


async def _take_turns_in_place(steps: Steps[Reply], places: LongAnswers) -> Reply:
    async with places:
        return await _take_turns(steps)


async def _take_turns(steps: Steps[Reply]) -> Reply:
    while True:
        await asyncio.sleep(0)
        try:
            _take_turn(steps)
        except StopIteration as finished:
            reply: Reply = finished.value
            return reply


def _take_turn(steps: Steps[Reply]) -> None:
    for _ in range(ENTRIES_PER_TURN):
        next(steps)
