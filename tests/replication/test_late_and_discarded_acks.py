"""Each ack is told once: by its offset or by its time, or not at all if it is discarded."""

from random import Random

import pytest

from penstock.model.error import ErrorCode
from penstock.model.offset import Offset
from penstock.replication.ack_queue import NEVER_MS, AckQueue


class Slot:
    def __init__(self) -> None:
        self.told: list[ErrorCode] = []

    def done(self, code: ErrorCode) -> None:
        self.told.append(code)


def test_acks_are_told_in_the_order_of_their_offsets() -> None:
    queue = AckQueue()
    slots = [Slot() for _ in range(4)]
    for offset, slot in enumerate(slots, 1):
        queue.add(Offset(offset), slot)
    queue.release(Offset(2), ErrorCode.NONE)
    assert [len(slot.told) for slot in slots] == [1, 1, 0, 0]
    queue.release_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [slot.told for slot in slots[2:]] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 2
    assert len(queue) == 0


def test_late_acks_are_told_and_the_next_time_is_returned() -> None:
    queue = AckQueue()
    slots = {deadline_ms: Slot() for deadline_ms in (50, 10, NEVER_MS, 30)}
    for deadline_ms, slot in slots.items():
        queue.add(Offset(1), slot, deadline_ms)
    assert queue.expire(9) == 10
    assert queue.expire(10) == 30
    assert queue.expire(49) == 50
    assert queue.expire(50) == NEVER_MS
    assert [len(slot.told) for slot in slots.values()] == [1, 1, 0, 1]
    assert slots[10].told == [ErrorCode.REQUEST_TIMED_OUT]
    queue.release(Offset(1), ErrorCode.NONE)
    assert slots[NEVER_MS].told == [ErrorCode.NONE]
    assert len(queue) == 0


@pytest.mark.parametrize("seed", range(50))
def test_whatever_happens_each_ack_is_told_once(seed: int) -> None:
    chance = Random(seed)
    queue = AckQueue()
    end = released = now_ms = 0
    waiting = {}  # slot -> (its ack, the offset that it waits for, its time)
    expected: dict[Slot, list[ErrorCode]] = {}
    for _ in range(400):
        match chance.randrange(6):
            case 0 | 1 | 2:
                # A retried batch has an earlier offset, and waits as long as the last one.
                end += chance.randrange(3)
                slot = Slot()
                deadline_ms = now_ms + chance.randrange(1, 100)
                waiting[slot] = queue.add(Offset(end), slot, deadline_ms), end, deadline_ms
                expected[slot] = []
            case 3:
                released = max(released, chance.randrange(released, end + 1))
                queue.release(Offset(released), ErrorCode.NONE)
                for slot in [one for one, (_, at, _) in waiting.items() if at <= released]:
                    expected[slot] = [ErrorCode.NONE]
                    del waiting[slot]
            case 4 if waiting:
                slot = chance.choice(list(waiting))
                queue.discard(waiting.pop(slot)[0])
            case _:
                now_ms += chance.randrange(20)
                next_ms = queue.expire(now_ms)
                for slot in [one for one, (_, _, at) in waiting.items() if at <= now_ms]:
                    expected[slot] = [ErrorCode.REQUEST_TIMED_OUT]
                    del waiting[slot]
                times = [deadline_ms for _, _, deadline_ms in waiting.values()]
                assert next_ms == min(times, default=NEVER_MS)
        queue.check()
        assert len(queue) == len(waiting)
        assert all(slot.told == codes for slot, codes in expected.items())
