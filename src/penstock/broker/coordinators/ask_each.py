"""Batched requests: each part is asked for by itself, and others get their turn in between."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.model.error import ErrorCode, RequestError

PARTS_PER_TURN = 10  # one may be a group of thousands of members or offsets

Part = TypeVar("Part")
Reply = TypeVar("Reply")


async def ask_each(
    parts: Sequence[Part],
    ask: Callable[[Part], Any | asyncio.Future[Any]],
    refuse: Callable[[Part, ErrorCode], Reply],
) -> list[Reply]:
    """The replies to the parts of a batched request; one that is refused spoils no other."""
    replies: list[Any] = []
    try:
        for number, part in enumerate(parts, 1):
            try:
                replies.append(ask(part))
            except RequestError as refusal:
                replies.append(refuse(part, refusal.code))
            if number % PARTS_PER_TURN == 0:
                await asyncio.sleep(0)
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
