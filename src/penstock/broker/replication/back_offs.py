"""Partitions whose last fetch failed: left out of the session, and fetched again after a while.

After a change of leader the follower may know of it before the leader does: asked again at once,
the leader is in step. Other errors last longer, and the wait doubles up to
`replica.fetch.backoff.ms`. A reason is told once.
"""

import asyncio
import logging
from collections.abc import Callable

from penstock.machine.deadlines import Deadlines
from penstock.model.events import REPLICA_FAILED
from penstock.model.identity import NodeId
from penstock.replication.follower import Follower
from penstock.replication.replica_session import PartitionId, ReplicaSession
from penstock.world.event_log import tell
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)

BACK_OFF_MS_MIN = 10


class BackOffs:
    """`over` is called with each partition whose wait is over, `look` after some of them."""

    def __init__(
        self,
        leader: NodeId,
        session: ReplicaSession,
        *,
        wait_ms_max: int,
        clock: Clock,
        over: Callable[[PartitionId], None],
        look: Callable[[], None],
    ) -> None:
        self.wait_ms: dict[PartitionId, int] = {}  # of those whose last fetch failed
        self._leader = leader
        self._session = session
        self._wait_ms_max = wait_ms_max
        self._clock = clock
        self._over = over
        self._look = look
        self._ends: Deadlines[PartitionId] = Deadlines()
        self._reasons: dict[PartitionId, str] = {}  # told already
        self._timer: asyncio.TimerHandle | None = None

    def is_waiting(self, partition: PartitionId) -> bool:
        return self._ends.at(partition) is not None

    def begin(self, partition: PartitionId) -> None:
        """The wait is twice as long as the one before."""
        before_ms = self.wait_ms.get(partition, BACK_OFF_MS_MIN // 2)
        self._wait(partition, min(2 * before_ms, self._wait_ms_max))

    def begin_longest(self, partition: PartitionId) -> None:
        self._wait(partition, self._wait_ms_max)

    def refused(self, partition: PartitionId, follower: Follower) -> None:
        """By the leader; told when that goes on."""
        self.begin(partition)
        if self.wait_ms[partition] == self._wait_ms_max:
            self._tell(partition, follower, "refused", follower.error.name)

    def failed(self, partition: PartitionId, follower: Follower, reason: str) -> None:
        """Told once for each reason; tried again after the longest back-off."""
        self._tell(partition, follower, "failed", reason)
        self.begin_longest(partition)

    def end(self, partition: PartitionId) -> None:
        self._ends.cancel(partition)
        self.wait_ms.pop(partition, None)

    def forget(self, partition: PartitionId) -> None:
        """With the reasons that were told."""
        self._reasons.pop(partition, None)
        self.end(partition)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, partition: PartitionId, follower: Follower, state: str, reason: str) -> None:
        if self._reasons.get(partition) != reason:
            self._reasons[partition] = reason
            tell(
                logger,
                REPLICA_FAILED,
                partition=str(follower.name),
                leader=self._leader,
                state=state,
                reason=reason,
            )

    def _wait(self, partition: PartitionId, wait_ms: int) -> None:
        self.wait_ms[partition] = wait_ms
        self._session.leave_out(partition)
        self._ends.set(partition, self._clock.monotonic_ms() + wait_ms)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self._ends.next_ms()
        if next_ms is not None:
            wait_s = max(next_ms - self._clock.monotonic_ms(), 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        """They are fetched again; what the last error was stays known until a fetch succeeds."""
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        while (partition := self._ends.due(now_ms)) is not None:
            self._ends.cancel(partition)
            self._over(partition)
        self._set_timer()
        self._look()
