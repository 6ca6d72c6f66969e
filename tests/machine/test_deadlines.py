"""Deadlines come in the order of their times, whatever was put off or cancelled before."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.machine.deadlines import STALE_PLACES_MAX, Deadlines

KEYS = st.sampled_from("abcdefgh")
TIMES_MS = st.integers(0, 50)


class AgainstADict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.deadlines: Deadlines[str] = Deadlines()
        self.expected: dict[str, int] = {}

    @rule(key=KEYS, at_ms=TIMES_MS)
    def set(self, key: str, at_ms: int) -> None:
        self.deadlines.set(key, at_ms)
        self.expected[key] = at_ms

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        self.deadlines.cancel(key)
        self.expected.pop(key, None)

    @rule(now_ms=TIMES_MS)
    def take_all_that_are_due(self, now_ms: int) -> None:
        times = []
        while (key := self.deadlines.due(now_ms)) is not None:
            times.append(self.expected.pop(key))
            self.deadlines.cancel(key)
        assert times == sorted(times)
        assert all(at_ms > now_ms for at_ms in self.expected.values())

    @invariant()
    def agrees(self) -> None:
        self.deadlines.check()
        assert len(self.deadlines) == len(self.expected)
        assert self.deadlines.next_ms() == min(self.expected.values(), default=None)
        for key in "abcdefgh":
            assert self.deadlines.at(key) == self.expected.get(key)


TestAgainstADict = AgainstADict.TestCase


@given(st.lists(TIMES_MS, min_size=1))
def test_looking_at_what_is_due_changes_nothing(times_ms: list[int]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key, at_ms in enumerate(times_ms):
        deadlines.set(key, at_ms)
    assert deadlines.due(50) == deadlines.due(50)
    assert len(deadlines) == len(times_ms)


def test_deadlines_of_one_time_come_in_the_order_they_were_set() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in ("third", "first", "second"):
        deadlines.set(key, 7)
    came = []
    while (due := deadlines.due(7)) is not None:
        came.append(due)
        deadlines.cancel(due)
    assert came == ["third", "first", "second"]


def test_a_deadline_that_moves_back_and_forth_leaves_nothing_behind() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for at_ms in range(10 * STALE_PLACES_MAX, 0, -1):
        deadlines.set("member", at_ms)
        deadlines.check()
    assert deadlines.next_ms() == 1
