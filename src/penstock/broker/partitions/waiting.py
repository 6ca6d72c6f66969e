"""Requests that wait for partitions: a fetch for more data, markers for their acks.

A waiting request is one future and one timer, however many partitions it waits for; nobody polls.
Each partition knows who observes it, so an append that nobody waits for pays nothing, and what is
cancelled leaves no trace.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from penstock.model.offset import Offset
from penstock.replication.partition import Partition
from penstock.replication.replica import Observer, Replica


class DataWaiter:
    """Waits until it is worth reading again. Partitions that are read one after another are
    observed as soon as they are read: what comes to them meanwhile is counted and not missed.
    """

    __slots__ = ("_bytes_came", "_bytes_wanted", "_has_ended", "_places", "_woken")

    def __init__(self) -> None:
        self._bytes_came = 0
        self._bytes_wanted = 0
        self._has_ended = False  # one of the partitions
        self._places: list[dict[Observer, None]] = []
        self._woken: asyncio.Future[bool] | None = None

    def observe(self, seen: Sequence[tuple[Replica, int]]) -> None:
        """Those of `seen` that are not observed yet, in the step in which they were read."""
        for partition, _ in seen[len(self._places) :]:
            partition.observers[self] = None
            self._places.append(partition.observers)

    async def more_data(
        self, seen: Sequence[tuple[Replica, int]], *, missing_bytes: int, wait_ms: int
    ) -> bool:
        """Waits until `missing_bytes` more came, or a partition ended.

        `seen` pairs each partition with its `changes` as of its reading, so that nothing is missed
        of those that are not observed since then. False when the time passed first.
        """
        assert missing_bytes > 0, missing_bytes
        unobserved = seen[len(self._places) :]
        if any(partition.changes != changes for partition, changes in unobserved):
            return True
        self.observe(seen)
        if self._has_ended or self._bytes_came >= missing_bytes:
            return True
        self._bytes_wanted = missing_bytes
        self._woken = woken = _new_future()
        return await _until_woken(woken, wait_ms=wait_ms)

    def stop(self) -> None:
        """Observes nothing any more, and counts from zero: before the next reading, or the end."""
        for place in self._places:
            place.pop(self, None)
        self._places = []
        self._bytes_came = 0
        self._has_ended = False
        self._woken = None

    def advanced(self, partition: Replica, byte_count: int) -> None:
        self._bytes_came += byte_count
        if self._woken is not None and self._bytes_came >= self._bytes_wanted:
            _wake(self._woken)

    def ended(self, partition: Replica) -> None:
        self._has_ended = True
        if self._woken is not None:
            _wake(self._woken)


async def all_acked(
    pending: Sequence[tuple[Partition, Offset]], *, all_acks: bool, wait_ms: int
) -> bool:
    """Waits until `is_acked` of each partition and its offset, or until the partition ended.

    False when the time passed first; which ones are late is for the caller to see.
    """
    woken = _new_future()
    waiter = _AckWaiter(woken, pending, all_acks=all_acks)
    if waiter.is_satisfied():
        return True
    places = [partition.ack_observers for partition, _ in pending]
    return await _observe(waiter, woken, places, wait_ms=wait_ms)


async def satisfied(
    partitions: Iterable[Partition], is_satisfied: Callable[[], bool], *, wait_ms: int
) -> bool:
    """Waits until the condition holds, which is looked at whenever one of the partitions changes.

    False when the time passed first.
    """
    woken = _new_future()
    waiter = _ConditionWaiter(woken, is_satisfied)
    if is_satisfied():
        return True
    return await _observe(waiter, woken, [one.observers for one in partitions], wait_ms=wait_ms)


def is_acked(partition: Partition, offset: Offset, *, all_acks: bool) -> bool:
    """Whether all in-sync replicas have the log up to `offset`; else whether the leader has."""
    return partition.high_watermark >= offset if all_acks else partition.vouches_for(offset)


class _ConditionWaiter:
    __slots__ = ("_is_satisfied", "_woken")

    def __init__(self, woken: asyncio.Future[bool], is_satisfied: Callable[[], bool]) -> None:
        self._woken = woken
        self._is_satisfied = is_satisfied

    def advanced(self, partition: Replica, byte_count: int) -> None:
        if self._is_satisfied():
            _wake(self._woken)

    def ended(self, partition: Replica) -> None:
        if self._is_satisfied():
            _wake(self._woken)
        elif not partition.has_ended:
            partition.observers[self] = None  # it is led here still, under another epoch


class _AckWaiter:
    __slots__ = ("_all_acks", "_pending", "_woken")

    def __init__(
        self,
        woken: asyncio.Future[bool],
        pending: Sequence[tuple[Partition, Offset]],
        *,
        all_acks: bool,
    ) -> None:
        self._woken = woken
        self._pending = pending
        self._all_acks = all_acks

    def is_satisfied(self) -> bool:
        return all(
            partition.has_ended or is_acked(partition, offset, all_acks=self._all_acks)
            for partition, offset in self._pending
        )

    def advanced(self, partition: Replica, byte_count: int) -> None:
        if self.is_satisfied():
            _wake(self._woken)

    def ended(self, partition: Replica) -> None:
        if self.is_satisfied():
            _wake(self._woken)
        elif isinstance(partition, Partition) and not partition.has_ended:
            # Under a new epoch of the same leader the records still stand: go on waiting.
            partition.ack_observers[self] = None


def _new_future() -> asyncio.Future[bool]:
    return asyncio.get_running_loop().create_future()


def _wake(woken: asyncio.Future[bool], in_time: bool = True) -> None:
    if not woken.done():
        woken.set_result(in_time)


async def _observe(
    waiter: Observer,
    woken: asyncio.Future[bool],
    places: Sequence[dict[Observer, None]],
    *,
    wait_ms: int,
) -> bool:
    """Whether the waiter was woken before its time was up; `places` are where it registers."""
    for place in places:
        place[waiter] = None
    try:
        return await _until_woken(woken, wait_ms=wait_ms)
    finally:
        for place in places:
            place.pop(waiter, None)


async def _until_woken(woken: asyncio.Future[bool], *, wait_ms: int) -> bool:
    timer = asyncio.get_running_loop().call_later(max(wait_ms, 0) / 1000, _wake, woken, False)
    try:
        return await woken
    finally:
        timer.cancel()
