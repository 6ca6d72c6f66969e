"""Answers to tokens of SASL, some of which need a hash of some milliseconds: in a thread.

The first log-in by a delegation token does, with each mechanism of each listener. One is computed
at a time, however many come: what they take of the machine is bounded, and those that wait for the
same credential find it when it is their turn. They wait within the time that a log-in may take.
"""

import asyncio

from penstock.security.sasl.dialogue import Dialogue, TokenAnswer
from penstock.security.sasl.exchange import Hashing
from penstock.world.ports import Clock


class Hashes:
    """Those of one listener."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()

    async def answer(self, dialogue: Dialogue, token: bytes) -> TokenAnswer:
        """The dialogue is given no other token until this returns."""
        answer = dialogue.token(token, now_ms=self._clock.now_ms())
        if isinstance(answer, Hashing):
            async with self._turn:
                # Somebody else may have computed it, or the delegation token may be gone.
                answer = dialogue.token(token, now_ms=self._clock.now_ms())
                if isinstance(answer, Hashing):
                    answer.keep(await asyncio.to_thread(answer.compute))
                    answer = dialogue.token(token, now_ms=self._clock.now_ms())
        assert isinstance(answer, TokenAnswer), "what is kept is found"
        return answer
