"""Failed log-ins in the log: each of them while they are few, and their number when they are many.

Names, passwords and tokens are never logged: people type passwords where names belong.
"""

import logging

from penstock.model.events import AUTHENTICATION_FAILED
from penstock.model.sasl import Mechanism
from penstock.world.event_log import tell
from penstock.world.ports import Address, Clock

logger = logging.getLogger(__name__)

WINDOW_MS = 1000
LINES_PER_WINDOW_MAX = 5


class FailedLogins:
    def __init__(self, *, listener: str, clock: Clock) -> None:
        self.count = 0  # since the start
        self._listener = listener
        self._clock = clock
        self._window_ends_ms = 0
        self._lines = 0
        self._left_out = 0

    def note(self, peer: Address, *, mechanism: Mechanism | None, reason: str) -> None:
        self.count += 1
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._window_ends_ms:
            self._window_ends_ms = now_ms + WINDOW_MS
            self._lines = 0
        if self._lines >= LINES_PER_WINDOW_MAX:
            self._left_out += 1
            return
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        tell(
            logger,
            AUTHENTICATION_FAILED,
            peer=str(peer),
            listener=self._listener,
            mechanism=None if mechanism is None else str(mechanism),
            reason=reason,
            left_out=left_out,
        )
