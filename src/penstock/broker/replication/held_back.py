"""Replicas that the throttle holds back: left out of the session until there is room again.

Only those are held back that are out of sync, and that a setting of their topic lists
(`replication/throttle`). One that has all that is committed goes on as well: it is about to be in
sync, and its leader may let acks wait for it already.
"""

import asyncio
from collections.abc import Callable, Mapping

from penstock.model.identity import NodeId, TopicPartition
from penstock.replication.follower import Follower
from penstock.replication.replica_session import PartitionId, ReplicaSession
from penstock.replication.throttle import ReplicationThrottle, is_listed
from penstock.wire.messages.fetch import PartitionData
from penstock.wire.replica_fetch import FetchedPartition
from penstock.world.ports import Clock

LOOK_MS_MAX = 1_000  # another rate may be in effect by then
RELEASE_WAIT_MS = 10  # by then it is known how much those have fetched that were just released


class HeldBack:
    """Of one fetcher. `release` is called with each partition that may be fetched again, `look`
    after some of them.
    """

    def __init__(
        self,
        throttle: ReplicationThrottle,
        session: ReplicaSession,
        *,
        node_id: NodeId,
        is_in_sync: Callable[[TopicPartition], bool],
        partition_bytes_max: int,
        clock: Clock,
        release: Callable[[PartitionId], None],
        look: Callable[[], None],
    ) -> None:
        self._throttle = throttle
        self._session = session
        self._node_id = node_id
        self._is_in_sync = is_in_sync
        self._partition_bytes_max = partition_bytes_max
        self._clock = clock
        self._release = release
        self._look = look
        self._held: dict[PartitionId, None] = {}  # in the order in which they go on
        self._at_end: set[PartitionId] = set()  # these had all that is committed
        self._timer: asyncio.TimerHandle | None = None

    @property
    def has_rate(self) -> bool:
        return self._throttle.rate_bytes is not None

    def __contains__(self, partition: PartitionId) -> bool:
        return partition in self._held

    def taken(
        self,
        partition: PartitionId,
        follower: Follower,
        data: PartitionData | FetchedPartition,
    ) -> None:
        """Records have come, and there is a rate."""
        if follower.log.end_offset >= data.high_watermark:
            self._at_end.add(partition)
        else:
            self._at_end.discard(partition)
        if self._is_throttled(follower):
            records = data.records
            assert isinstance(records, bytes | bytearray | memoryview), "what is received is a view"
            self._throttle.passed(len(records), now_ms=self._clock.monotonic_ms())

    def hold(
        self, followers: Mapping[PartitionId, Follower], may_be_held: Callable[[PartitionId], bool]
    ) -> None:
        """If the rate is used up: all that have to wait for it, and not for anything else."""
        if not self._wait_ms():
            return
        for partition, follower in followers.items():
            if (
                partition not in self._at_end
                and partition not in self._held
                and may_be_held(partition)
                and self._is_throttled(follower)
            ):
                self._session.leave_out(partition)
                self._held[partition] = None
        self._set_timer(self._wait_ms())

    def forget(self, partition: PartitionId) -> None:
        self._held.pop(partition, None)
        self._at_end.discard(partition)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_throttled(self, follower: Follower) -> bool:
        return is_listed(
            follower.settings.follower_replication_throttled_replicas,
            partition=follower.name.partition,
            node=self._node_id,
        ) and not self._is_in_sync(follower.name)

    def _wait_ms(self) -> int:
        if not self.has_rate:
            return 0
        return self._throttle.wait_ms(now_ms=self._clock.monotonic_ms())

    def _set_timer(self, wait_ms: int) -> None:
        self.stop()
        if self._held:
            wait_s = min(max(wait_ms, 1), LOOK_MS_MAX) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        """As many go on as there is room for, one at least; all of them without a rate."""
        self._timer = None
        wait_ms = self._wait_ms()
        if wait_ms:
            self._set_timer(wait_ms)
            return
        count = len(self._held)
        if self.has_rate:
            room_bytes = self._throttle.room_bytes(now_ms=self._clock.monotonic_ms())
            count = 1 + room_bytes // max(self._partition_bytes_max, 1)
        for partition in list(self._held)[:count]:
            del self._held[partition]
            self._release(partition)
        self._set_timer(RELEASE_WAIT_MS)
        self._look()
