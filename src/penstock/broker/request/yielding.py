"""A long answer is worked out in turns, so that a request of many entries keeps nobody waiting.

A handler whose work grows with its request writes it as a generator: a bare `yield` after each
entry, the reply returned at the end. Few entries are answered at once, without a task; after
ENTRIES_PER_TURN of them the loop gets its turn. What the handler knew before a `yield` may be old
after it, as with `await`.
"""

import asyncio
from collections.abc import Awaitable, Generator
from typing import TypeVar

from penstock.model.limit import ENTRIES_PER_TURN

Reply = TypeVar("Reply")
Steps = Generator[None, None, Reply]


def by_turns(steps: Steps[Reply]) -> Reply | Awaitable[Reply]:
    """The reply, or what to wait for to have it."""
    try:
        _take_turn(steps)
    except StopIteration as finished:
        reply: Reply = finished.value
        return reply
    return go_on(steps)


async def go_on(steps: Steps[Reply]) -> Reply:
    """The same for who must wait anyway."""
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
