"""When the first of many held replies is due is known without a look at all of them."""

from penstock.machine.held_replies import Held, HeldReplies
from penstock.model.offset import Offset
from rig.calls import count_calls

MANY = 1000


def held(offset: int, *, deadline_ms: int, told: list[int]) -> Held[int]:
    return Held(
        until_offset=Offset(offset),
        deadline_ms=deadline_ms,
        reply=offset,
        effects=(),
        answer=lambda _: told.append(offset),
    )


class WatchedHeld(Held[int]):
    """Looking at one is a call, which can be counted."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> object:
        return object.__getattribute__(self, name)


def test_asking_for_the_next_deadline_looks_at_few_replies() -> None:
    replies: HeldReplies[int] = HeldReplies()
    for offset in range(1, MANY + 1):
        replies.hold(
            WatchedHeld(
                until_offset=Offset(offset),
                deadline_ms=100 + offset,
                reply=offset,
                effects=(),
                answer=lambda _: None,
            )
        )
    assert count_calls(WatchedHeld.__getattribute__, replies.next_deadline_ms) < 5
    assert replies.next_deadline_ms() == 101
    replies.release(Offset(10))
    assert replies.next_deadline_ms() == 111
    replies.check(Offset(10))


def test_those_that_are_due_are_told_in_the_order_of_their_decisions() -> None:
    told: list[int] = []
    replies: HeldReplies[int] = HeldReplies()
    for offset, deadline_ms in ((1, 30), (2, 10), (3, 20), (4, 90)):
        replies.hold(held(offset, deadline_ms=deadline_ms, told=told))
    for expired in replies.expire(50):
        expired.answer(0)
    assert told == [1, 2, 3]
    assert replies.next_deadline_ms() == 90
    assert [one.reply for one in replies.release(Offset(4))] == [1, 2, 3, 4]
    assert replies.next_deadline_ms() is None
