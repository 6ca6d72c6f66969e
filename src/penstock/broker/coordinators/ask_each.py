"""Batched requests: each part is asked for by itself, and others get their turn in between.

The first parts are asked for at once, in the order in which requests came: one that comes behind on
the same connection is decided after them. Those of a longer request may be decided later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from penstock.model.error import ErrorCode, RequestError

PARTS_PER_TURN = 10  # one may be a group of thousands of members or offsets

Part = TypeVar("Part")
Reply = TypeVar("Reply")


def ask_each(
    parts: Sequence[Part],
    ask: Callable[[Part], Any | asyncio.Future[Any]],
    refuse: Callable[[Part, ErrorCode], Reply],
) -> Awaitable[list[Reply]]:
    """The replies to the parts of a batched request; one that is refused spoils no other."""
    replies: list[Any] = []
    _ask_some(parts, ask, refuse, replies)
    return _ask_rest(parts, ask, refuse, replies)


def _ask_some(
    parts: Sequence[Part],
    ask: Callable[[Part], Any | asyncio.Future[Any]],
    refuse: Callable[[Part, ErrorCode], Reply],
    replies: list[Any],
) -> None:
    """One turn's worth of those that have no reply yet."""
    for part in parts[len(replies) : len(replies) + PARTS_PER_TURN]:
        try:
            replies.append(ask(part))
        except RequestError as refusal:
            replies.append(refuse(part, refusal.code))


async def _ask_rest(
    parts: Sequence[Part],
    ask: Callable[[Part], Any | asyncio.Future[Any]],
    refuse: Callable[[Part, ErrorCode], Reply],
    replies: list[Any],
) -> list[Reply]:
    try:
        while len(replies) < len(parts):
            await asyncio.sleep(0)
            _ask_some(parts, ask, refuse, replies)
        for number, reply in enumerate(replies):
            if isinstance(reply, asyncio.Future):
                try:
                    replies[number] = await reply
                except RequestError as refusal:
                    replies[number] = refuse(parts[number], refusal.code)
    finally:
        for reply in replies:
            if isinstance(reply, asyncio.Future):
                reply.cancel()
    return replies
