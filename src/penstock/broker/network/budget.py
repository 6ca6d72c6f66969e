"""The memory that all connections together may hold for requests that are still arriving.

A connection counts what it holds beyond its idle buffer, which is what its peer has sent and not
what it has announced. When the budget is spent, whoever needs more waits, in order. Waiting alone
could last for ever, with every connection half way through a request; so one holder at a time may
go beyond the budget until that request is in; the next one of the same sender has no such right.
All that is held is therefore bounded by the budget plus one request of the largest size.
A peer that stops in the middle of a request would keep it all the same: while somebody waits, the
server closes such connections (`Server._relieve`), for which `short` is set.
"""

import asyncio
from collections import deque


class Budget:
    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0, bytes_max
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.short = asyncio.Event()  # set while somebody waits
        self._beyond: object | None = None  # the holder that may go beyond the budget
        self._line: deque[tuple[object, int, asyncio.Future[None]]] = deque()

    @property
    def is_tight(self) -> bool:
        """Whether idle connections should give back what they keep for their next request.

        They do from half the budget on, so what idles can never starve what arrives.
        """
        return self.held_bytes > self.bytes_max // 2

    def is_beyond(self, holder: object) -> bool:
        return holder is self._beyond

    async def take(self, holder: object, count: int) -> None:
        """Returns when `holder` may hold `count` bytes more."""
        assert count > 0, count
        fits = not self._line and self.held_bytes + count <= self.bytes_max
        if fits or holder is self._beyond:
            self.held_bytes += count
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((holder, count, turn))
        self._admit()
        if self._line:
            self.short.set()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(holder, count, all_given=True)
            else:
                self._line = deque(entry for entry in self._line if entry[2] is not turn)
                self._admit()  # it may have stood in the way of a smaller one
            raise

    def give(self, holder: object, count: int, *, all_given: bool) -> None:
        """`holder` holds `count` bytes less; `all_given` when it holds nothing more."""
        assert 0 <= count <= self.held_bytes, (count, self.held_bytes)
        self.held_bytes -= count
        if all_given and holder is self._beyond:
            self._beyond = None
        self._admit()

    def come_back(self, holder: object) -> None:
        """The request for which `holder` was let beyond the budget is in, and its memory given."""
        assert holder is self._beyond, holder
        self._beyond = None
        self._admit()

    def _admit(self) -> None:
        while self._line:
            holder, count, turn = self._line[0]
            if turn.cancelled():  # its task ends in a moment
                self._line.popleft()
                continue
            if self.held_bytes + count > self.bytes_max:
                if self._beyond is not None:
                    return
                self._beyond = holder
            self._line.popleft()
            self.held_bytes += count
            turn.set_result(None)
        self.short.clear()
