"""Requests that wait for a moment while the shard that they are for is being loaded.

Most requests are refused meanwhile, and their clients send them again until they are answered. A
commit of offsets is not sent again for long: librdkafka gives it up after two more tries, within a
third of a second, and its application gets the error. So commits wait, in the order in which they
came; the next one of the same shard waits behind them, also when the shard has opened by then.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import LOAD_WAIT_MS_MAX

Ask = Callable[[], Any]  # the reply, or a future of it; RequestError


class Waiting:
    __slots__ = ("answer", "ask")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class LoadWaits:
    """A line for each shard, by its partition. Whoever opens or ends a shard calls `ask_again`."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[Waiting]] = {}

    def __iter__(self) -> Iterator[int]:
        """The shards that something waits for, as of now."""
        return iter(tuple(self._lines))

    def ask(self, index: int, ask: Ask) -> Any:
        """What `ask` gives, or an awaitable of it where it has to wait."""
        if index not in self._lines:
            try:
                return ask()
            except RequestError as refusal:
                if refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
        waiting = Waiting(ask)
        self._lines.setdefault(index, deque()).append(waiting)
        return self._answered(index, waiting)

    def ask_again(self, index: int) -> None:
        """All of a line, in order; if the shard is still being loaded they go on waiting."""
        line = self._lines.get(index)
        if line is None:
            return
        while line:
            waiting = line[0]
            if not waiting.answer.done() and not _has_answered(waiting):
                return
            line.popleft()
        del self._lines[index]

    async def _answered(self, index: int, waiting: Waiting) -> Any:
        try:
            async with asyncio.timeout(LOAD_WAIT_MS_MAX / 1000):
                reply = await waiting.answer
        except TimeoutError:
            raise RequestError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being loaded"
            ) from None
        finally:
            self._leave(index, waiting)
        return await reply if isinstance(reply, asyncio.Future) else reply

    def _leave(self, index: int, waiting: Waiting) -> None:
        """Time is up, or the client has gone."""
        line = self._lines.get(index)
        if line is not None and waiting in line:
            line.remove(waiting)
            if not line:
                del self._lines[index]


def _has_answered(waiting: Waiting) -> bool:
    try:
        reply = waiting.ask()
    except RequestError as refusal:
        if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return False
        waiting.answer.set_exception(refusal)
    else:
        waiting.answer.set_result(reply)
    return True
