"""The time at which fetches of followers that wait are answered with what there is."""

import asyncio

from penstock.replication.follower_session import FollowerSession
from penstock.world.ports import Clock


class PollAlarm:
    """One timer for all fetches of a session. Most are answered long before their time is up: a
    timer of each would be set and cancelled in vain. This one is set again when it rings too early.
    """

    __slots__ = ("_clock", "_rings_ms", "_session", "_timer")

    def __init__(self, session: FollowerSession, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._rings_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, ends_ms: int, *, now_ms: int) -> None:
        """Rings at `ends_ms`, or before."""
        if self._timer is not None:
            if self._rings_ms <= ends_ms:
                return
            self._timer.cancel()
        self._rings_ms = ends_ms
        wait_s = max(ends_ms - now_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        poll = self._session.poll
        if poll is None:
            return
        now_ms = self._clock.monotonic_ms()
        if poll.ends_ms <= now_ms:
            poll.time_is_up()
        else:
            self.set(poll.ends_ms, now_ms=now_ms)
