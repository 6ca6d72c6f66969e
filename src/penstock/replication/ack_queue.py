"""Acks that wait: each for an offset, released in order, each told once.

A leader has one queue for acks that wait for the high watermark. Adding costs one append, a release
costs one pop for each ack that is released, and nothing looks at those that still wait, except when
the time of one of them is up: `expire` walks over them, and says when to call it again.

Invariants:
 1. Offsets do not decrease from the front to the back. An ack for an earlier offset than the last
    one, that of a retried batch, waits as long as the last one.
 2. Discarded acks at the front are removed at once, and those further back never outnumber the
    others by more than DISCARDED_MAX.
"""

from collections import deque
from typing import Final, Protocol

from penstock.model.error import ErrorCode
from penstock.model.offset import Offset

DISCARDED_MAX: Final = 64
NEVER_MS: Final = 2**62  # on no clock


class AckSlot(Protocol):
    """Where the outcome of an append is awaited."""

    def done(self, code: ErrorCode) -> None:
        """The outcome; called once, unless the ack was discarded before. It must not append, and
        must not add or discard acks.
        """


class PendingAck:
    """One ack in a queue; keep it to discard the ack."""

    __slots__ = ("deadline_ms", "end_offset", "slot")

    def __init__(self, end_offset: Offset, slot: AckSlot, deadline_ms: int) -> None:
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms
        self.slot: AckSlot | None = slot  # None: it was told, or discarded


class AckQueue:
    """See the module's invariants."""

    __slots__ = ("_discarded_count", "_waiting", "deadline_ms")

    def __init__(self) -> None:
        self.deadline_ms = NEVER_MS  # when the shell calls `expire`: it is the shell's to set
        self._waiting: deque[PendingAck] | None = None  # most partitions never need one
        self._discarded_count = 0

    def __len__(self) -> int:
        return 0 if self._waiting is None else len(self._waiting) - self._discarded_count

    def add(self, end_offset: Offset, slot: AckSlot, deadline_ms: int = NEVER_MS) -> PendingAck:
        """The slot waits until `end_offset` is released, or until its time is up."""
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = deque()
        elif waiting and waiting[-1].end_offset > end_offset:
            end_offset = waiting[-1].end_offset  # invariant 1
        pending = PendingAck(end_offset, slot, deadline_ms)
        waiting.append(pending)
        return pending

    def discard(self, pending: PendingAck) -> None:
        """Nobody waits any more: the time is up, or the connection is gone."""
        waiting = self._waiting
        if pending.slot is None or waiting is None:
            return
        pending.slot = None
        self._discarded_count += 1
        while waiting and waiting[0].slot is None:
            waiting.popleft()
            self._discarded_count -= 1
        if self._discarded_count > len(waiting) - self._discarded_count + DISCARDED_MAX:
            # Half of them at least are removed, so this costs no more than adding them did.
            self._waiting = deque(one for one in waiting if one.slot is not None)
            self._discarded_count = 0

    def release(self, until_offset: Offset, code: ErrorCode) -> None:
        """Tells `code` to every ack that waits for `until_offset` or less."""
        waiting = self._waiting
        if waiting is None:
            return
        while waiting and (waiting[0].end_offset <= until_offset or waiting[0].slot is None):
            self._tell(waiting.popleft(), code)

    def expire(self, now_ms: int) -> int:
        """Tells REQUEST_TIMED_OUT to the acks whose time is up; returns when the next one's is."""
        next_ms = NEVER_MS
        late: list[PendingAck] = []
        for pending in self._waiting or ():
            if pending.slot is None:
                continue
            if pending.deadline_ms <= now_ms:
                late.append(pending)
            else:
                next_ms = min(next_ms, pending.deadline_ms)
        for pending in late:
            slot = pending.slot
            if slot is not None:
                self.discard(pending)
                slot.done(ErrorCode.REQUEST_TIMED_OUT)
        return next_ms

    def release_all(self, code: ErrorCode) -> None:
        """Tells `code` to every ack."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            for pending in waiting:
                self._tell(pending, code)

    def check(self) -> None:
        waiting = self._waiting or ()
        ends = [pending.end_offset for pending in waiting]
        assert ends == sorted(ends)  # invariant 1
        discarded = sum(pending.slot is None for pending in waiting)
        assert discarded == self._discarded_count
        assert not waiting or waiting[0].slot is not None  # invariant 2
        assert discarded <= len(waiting) - discarded + DISCARDED_MAX  # invariant 2

    def _tell(self, pending: PendingAck, code: ErrorCode) -> None:
        slot = pending.slot
        if slot is None:
            self._discarded_count -= 1
        else:
            pending.slot = None
            slot.done(code)
