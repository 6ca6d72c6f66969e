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


async def more_data(
    seen: Sequence[tuple[Replica, int]], *, missing_bytes: int, wait_ms: int
) -> bool:
    """Waits until it is worth reading again: `missing_bytes` more came, or a partition ended.

    `seen` pairs each partition with its `changes` as of the last reading, so that nothing is
    missed between that reading and the start of this wait. False when the time passed first.
    """
    assert missing_bytes > 0, missing_bytes
    if any(partition.changes != changes for partition, changes in seen):
        return True
    woken = _new_future()
    waiter = _DataWaiter(woken, missing_bytes)
    places = [partition.observers for partition, _ in seen]
    return await _observe(waiter, woken, places, wait_ms=wait_ms)


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


class _DataWaiter:
    __slots__ = ("_missing_bytes", "_woken")

    def __init__(self, woken: asyncio.Future[bool], missing_bytes: int) -> None:
        self._woken = woken
        self._missing_bytes = missing_bytes

    def advanced(self, partition: Replica, byte_count: int) -> None:
        self._missing_bytes -= byte_count
        if self._missing_bytes <= 0:
            _wake(self._woken)

    def ended(self, partition: Replica) -> None:
        _wake(self._woken)


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
    timer = asyncio.get_running_loop().call_later(max(wait_ms, 0) / 1000, _wake, woken, False)
    try:
        return await woken
    finally:
        timer.cancel()
        for place in places:
            place.pop(waiter, None)
