"""When acks that do not come are given up: one heap and one task for all partitions of a broker.

The heap has one entry for each queue that has anything to wait for, not one for each ack: most acks
come long before their time, and adding one looks at a number. When the time of a queue has come, it
is walked once, what is late is told REQUEST_TIMED_OUT, and the queue is entered again with the next
time of what still waits. An ack that wants an earlier time than its queue has gets another entry;
the later one finds nothing to do.
"""

import asyncio
import heapq

from penstock.replication.ack_queue import NEVER_MS, AckQueue
from penstock.world.ports import Clock


class AckDeadlines:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, AckQueue]] = []
        self._entries = 0  # tells entries of one time apart
        self._woken: asyncio.Future[None] | None = None

    def note(self, queue: AckQueue, deadline_ms: int) -> None:
        """An ack of the queue is given up at this time, on the monotonic clock."""
        if deadline_ms >= queue.deadline_ms:
            return
        queue.deadline_ms = deadline_ms
        self._entries += 1
        heapq.heappush(self._heap, (deadline_ms, self._entries, queue))
        if self._heap[0][1] == self._entries:
            self._wake()

    async def keep(self) -> None:
        """Gives up what is late, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.expire()
            self._woken = loop.create_future()
            timer = None
            if self._heap:
                wait_ms = max(self._heap[0][0] - self._clock.monotonic_ms(), 1)
                timer = loop.call_later(wait_ms / 1000, self._wake)
            try:
                await self._woken
            finally:
                if timer is not None:
                    timer.cancel()

    def expire(self) -> None:
        """Gives up what is late by now."""
        heap = self._heap
        now_ms = self._clock.monotonic_ms()
        while heap and heap[0][0] <= now_ms:
            deadline_ms, _, queue = heapq.heappop(heap)
            if queue.deadline_ms == deadline_ms:
                queue.deadline_ms = NEVER_MS
                self.note(queue, queue.expire(now_ms))

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
